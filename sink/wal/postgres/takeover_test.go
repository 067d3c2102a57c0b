package postgres

import (
	"testing"
	"time"

	"etl/checkpoint/memstore"
	"etl/internal/pgtest"
	"etl/sink/sqltxn/sqltest"
	"etl/stream"
)

// A process that was stopped in the middle of a delivery is overtaken. However long locks
// may be waited for, a try ends before that.
func TestStoppedInDelivery(t *testing.T) {
	l := newLab(t, pgtest.Shared(t), func(c *Config) { c.LockTimeout = time.Hour })
	st := memstore.New("x")
	old := l.run(st)
	old.write("a=1", "b=2")
	permit, cs := old.publish()
	owner := func(r *run) sqltest.Owner { return sqltest.Owner{Attempt: r.a, Committer: r.c} }
	sqltest.Overtaken(t, "wal.postgres.written", owner(old), permit, cs[0], func() sqltest.Owner { return owner(l.run(st)) })
	if got := l.text("SELECT string_agg(k || n, ' ' ORDER BY k) FROM out"); got != "a1 b2" {
		t.Errorf("readers see %s", got)
	}
}

// An attempt before delivered in two phases, and died with a transaction prepared: it has
// read the fence, and would hold it for ever. A fence rolls it back, and nobody else's.
func TestPreparedByTheDeliveryBefore(t *testing.T) {
	l := newLab(t, pgtest.Shared(t), nil)
	st := memstore.New("x")
	old := l.run(st)
	left := func(uid stream.UID) string {
		b := l.cfg.WithDefaults()
		book := b.book("job", uid, old.a.Lineage())
		gid := book.GID(0, stream.NewCheckpointID(1, 1))
		l.exec("INSERT INTO etl.fence (job, sink, lineage, epoch) VALUES ('job', $1, $2, 1)", string(uid), old.a.Lineage().String())
		l.exec("BEGIN; SELECT FROM etl.fence WHERE sink = '" + string(uid) + "' FOR SHARE; PREPARE TRANSACTION '" + gid + "'")
		return gid
	}
	left("out")
	other := left("out2")
	next := l.run(st)
	if err := next.c.Fence(t.Context(), []stream.Attempt{1}, nil); err != nil {
		t.Error(err)
	}
	if got := l.text("SELECT string_agg(gid, ' ') FROM pg_prepared_xacts WHERE database = current_database()"); got != other {
		t.Errorf("prepared are %s, want %s", got, other)
	}
	l.exec("ROLLBACK PREPARED '" + other + "'")
}

// A server that went back behind what this process has delivered is told from one that had
// nothing: the next delivery declares the loss.
func TestForgottenDelivery(t *testing.T) {
	l := newLab(t, pgtest.Shared(t), nil)
	r := l.run(memstore.New("x"))
	r.write("a=1")
	if _, err := r.commit(r.publish()); err != nil {
		t.Fatal(err)
	}
	l.exec("DELETE FROM etl.marker; DELETE FROM out")
	r.write("b=2")
	permit, cs := r.publish()
	if _, err := r.commit(permit, cs[1:]); stream.CodeOf(err) != "postgres.forgotten" || stream.ClassOf(err) != stream.DataLoss {
		t.Errorf("the next delivery says %v", err)
	}
	if got := l.text("SELECT count(*) FROM out"); got != "0" {
		t.Errorf("%s rows are there", got)
	}
}
