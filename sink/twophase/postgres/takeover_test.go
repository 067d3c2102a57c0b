package postgres

import (
	"testing"
	"time"

	"etl/checkpoint"
	"etl/checkpoint/memstore"
	"etl/internal/pgconn"
	"etl/internal/pgtest"
	"etl/sink"
	"etl/sink/sqltxn"
	"etl/sink/sqltxn/sqltest"
	"etl/stream"
)

// heir is the committer of an attempt, and what it may commit.
type heir struct {
	*flow
	a *checkpoint.Attempt
	c sink.Committer
}

func (f *flow) heir(st checkpoint.Storage) *heir {
	f.Helper()
	h := &heir{flow: f, c: New(f.cfg).NewCommitter()}
	var err error
	if h.a, err = checkpoint.OpenAttempt(f.Context(), st, checkpoint.AttemptOptions{World: f.env.World, Holder: checkpoint.Holder{Host: "test"}}); err != nil {
		f.Fatal(err)
	}
	env := sink.CommitEnv{World: f.env.World, Job: f.job, Lineage: f.env.Lineage, Attempt: h.a.Number(), UID: "out", Owners: h.a.History().Owners(h.a.Number())}
	if err := h.c.Open(f.Context(), env); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = h.c.Close() }) // never fails
	return h
}

// publish publishes what is prepared.
func (h *heir) publish(cs []checkpoint.Committable) checkpoint.Permit {
	h.Helper()
	p, err := h.a.Publish(h.Context(), &checkpoint.Metadata{Version: checkpoint.MetadataVersion, Job: "job", Lineage: h.a.Lineage(), ID: h.id(), Kind: "periodic", Mode: "exactly_once", MaxParallelism: 128, Committables: cs})
	if err != nil {
		h.Fatal(err)
	}
	return p
}

func (h *heir) owner() sqltest.Owner { return sqltest.Owner{Attempt: h.a, Committer: h.c} }

// A process that was stopped in the middle of a merge is overtaken. However long locks may
// be waited for, a try ends before that.
func TestStoppedInMerge(t *testing.T) {
	f := newFlow(newLab(t, pgtest.Shared(t), func(c *Config) { variants["staged upsert"](c); c.LockTimeout = time.Hour }))
	f.write("a=1", "b=2")
	cs, st := f.finish().Committables, memstore.New("x")
	old := f.heir(st)
	permit := old.publish(cs)
	sqltest.Overtaken(t, "postgres.merge.merged", old.owner(), permit, cs[0], func() sqltest.Owner { return f.heir(st).owner() })
	if got := f.text("SELECT string_agg(k || n, ' ' ORDER BY k) FROM " + f.cfg.Table); got != "a1 b2" {
		t.Errorf("the table holds %s", got)
	}
}

// Looking for bad rows locks them. Who was taken over may not begin to.
func TestSiftIsFenced(t *testing.T) {
	for _, strategy := range []Strategy{Prepared, Staged} {
		f := newFlow(newLab(t, pgtest.Shared(t), func(c *Config) { preparedUpsert(c); c.Strategy = strategy }))
		f.write("a=-1")
		p := f.prepare().(*pending)
		err := f.w.pools.write.With(t.Context(), func(c *pgconn.Conn) error {
			if _, err := p.sift(t.Context(), c, sqltxn.Bad{}); err != nil {
				t.Errorf("%s: the owner may not look: %v", strategy, err)
			}
			if err := f.w.id.book.TakeOver(t.Context(), c, 2); err != nil {
				return err
			}
			_, err := p.sift(t.Context(), c, sqltxn.Bad{})
			return err
		})
		if stream.ClassOf(err) != stream.Fenced {
			t.Errorf("%s: %v", strategy, err)
		}
	}
}

// A server that went back behind what this process has seen it commit, in a failover or to a
// backup, is told from one that had nothing: the next commit declares the loss.
func TestForgottenCommit(t *testing.T) {
	for name, shape := range map[string]func(*Config){"prepared": variants["prepared append"], "staged": variants["staged append"]} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(newLab(t, pgtest.Shared(t), shape))
			h := f.heir(memstore.New("x"))
			commit := func(row string) error {
				f.write(row)
				cs := f.finish().Committables
				_, err := h.c.Commit(t.Context(), h.publish(cs), cs[0])
				return err
			}
			if err := commit("a=1"); err != nil {
				t.Fatal(err)
			}
			f.exec("DELETE FROM etl.marker WHERE job = $1", f.job)
			if err := commit("b=2"); stream.CodeOf(err) != "postgres.forgotten" || stream.ClassOf(err) != stream.DataLoss {
				t.Errorf("the next commit says %v", err)
			}
			if got := f.text("SELECT string_agg(k || n, ' ' ORDER BY k) FROM " + f.cfg.Table); got != "a1" {
				t.Errorf("the table has %s", got)
			}
		})
	}
}
