package postgres

import (
	"testing"
	"time"

	"etl/checkpoint/memstore"
	"etl/internal/pgtest"
	"etl/sink"
	"etl/sink/sqltxn/sqltest"
	"etl/stream"
)

// A process that was stopped in the middle of a delivery holds the marker and rows.
// Deliveries come before fences (V5, V6): its successor ends the session and delivers. When
// the stopped one goes on, it finds that it is done. However long locks may be waited for, a
// try ends before that.
func TestStoppedInDelivery(t *testing.T) {
	l := newLab(t, pgtest.Shared(t), func(c *Config) { c.LockTimeout = time.Hour })
	st := memstore.New("x")
	old := l.run(st)
	old.write("a=1", "b=2")
	permit, cs := old.publish()
	stopped, release := sqltest.Hold(t, "wal.postgres.written")
	late := make(chan error, 1)
	var r sink.Result
	go func() {
		var err error
		r, err = sqltest.Commit(t.Context(), old.c, permit, cs[0])
		late <- err
	}()
	<-stopped
	next := l.run(st)
	restored, err := next.a.Restored(cs[0].Checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := sqltest.Commit(t.Context(), next.c, restored, cs[0]); err != nil || r.Outcome != sink.Done {
		t.Errorf("the successor: %+v, %v", r, err)
	}
	release()
	if err := <-late; err != nil || r.Outcome != sink.Already {
		t.Errorf("who was stopped: %+v, %v", r, err)
	}
	if err := next.c.Fence(t.Context(), []stream.Attempt{1}, nil); err != nil {
		t.Error(err)
	}
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
