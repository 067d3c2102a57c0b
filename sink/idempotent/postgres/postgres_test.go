package postgres

import (
	"context"
	"strings"
	"testing"

	"etl/internal/pgtest"
	"etl/sink/idempotent"
	"etl/sink/idempotent/storetest"
	"etl/sink/sqltxn"
	"etl/state"
	"etl/stream"
)

// open starts an attempt on what a checkpoint kept.
func (l *lab) open(no stream.Attempt, life stream.Lineage, restored ...state.Handle) (*storetest.Attempt, error) {
	return storetest.Open(l, New(l.cfg), "job", no, life, restored...)
}

func (l *lab) MustOpen(no stream.Attempt, restored ...state.Handle) *storetest.Attempt {
	l.Helper()
	a, err := l.open(no, storetest.Lineage, restored...)
	if err != nil {
		l.Fatal(err)
	}
	return a
}

func (l *lab) Want(key, value string) {
	l.Helper()
	var got string
	if err := l.pool.QueryRow(context.Background(), "SELECT coalesce((SELECT n FROM out WHERE k = $1)::text, '')", key).Scan(&got); err != nil || got != value {
		l.Errorf("%s shows %q, want %q (%v)", key, got, value, err)
	}
}

func TestReplay(t *testing.T) {
	storetest.Replay(func(guard idempotent.Guard) storetest.Store {
		return newLab(t, pgtest.Shared(t), func(c *Config) { c.Guard = guard })
	})
}

// A zombie writes in vain; what a new life of the job writes counts; so does what comes to
// a row that another program has written.
func TestScopes(t *testing.T) {
	l := newLab(t, pgtest.Shared(t), nil)
	l.exec("INSERT INTO out (k, n) VALUES ('old', 1)")
	zombie := l.MustOpen(1)
	zombie.MustFlush(storetest.Row("k", 5), storetest.Row("old", 2))
	l.Want("old", "2")
	l.MustOpen(2).MustFlush(storetest.Row("k", 7))
	zombie.MustFlush(storetest.Row("k", 6))
	l.Want("k", "7")
	fresh, err := l.open(1, stream.Lineage{9})
	if err != nil {
		t.Fatal(err)
	}
	fresh.MustFlush(storetest.Row("k", 1))
	l.Want("k", "1")
}

// Positions of two partitions have no order: a key that moves goes on.
func TestPositionsOfTwoPartitions(t *testing.T) {
	l := newLab(t, pgtest.Shared(t), func(c *Config) { c.Guard = idempotent.Position })
	a := l.MustOpen(1)
	a.MustFlush(storetest.Row("k", 100))
	moved := storetest.Row("k", 3)
	moved.Partition = 1
	a.MustFlush(moved)
	l.Want("k", "3")
}

// Under fail a row that the server refuses ends the job; under the others the rest of its
// batch is written, and so is the row of the same key that was good.
func TestRefusedRow(t *testing.T) {
	l := newLab(t, pgtest.Shared(t), nil)
	a := l.MustOpen(1)
	var out storetest.Rejects
	got, err := a.Flush(&out, storetest.Row("good", 1), storetest.Row("bad", 1), storetest.Row("bad", -1))
	if err != nil || !got.More {
		t.Fatal(got, err)
	}
	l.Want("good", "1")
	l.Want("bad", "1")
	again := l.MustOpen(2, got.State...)
	if _, err := again.Flush(&out); err != nil || len(out) != 1 || stream.CodeOf(out[0]) != "postgres.row" {
		t.Errorf("rejected after a restart: %v, %v", out, err)
	}
	l.cfg.OnError = idempotent.Fail
	if _, err := l.MustOpen(3).Flush(&out, storetest.Row("bad", -1)); stream.ClassOf(err) != stream.Failed || stream.CodeOf(err) != "postgres.row" {
		t.Errorf("under fail: %v", err)
	}
}

// What does not fit is said when the sink opens, with the statement that mends it.
func TestTableDoesNotFit(t *testing.T) {
	l := newLab(t, pgtest.Shared(t), nil)
	for _, c := range []struct{ ddl, code, fix string }{
		{"ALTER TABLE out ALTER COLUMN etl_version TYPE int4", "postgres.version_column", "TYPE bigint"},
		{"ALTER TABLE out DROP COLUMN etl_version", "postgres.no_version_column", "ADD COLUMN IF NOT EXISTS"},
		{"ALTER TABLE out DROP CONSTRAINT out_pkey", "postgres.no_unique_key", "ADD UNIQUE"},
	} {
		if c.code == "postgres.no_unique_key" {
			l.exec(l.cfg.DDL())
		}
		l.exec(c.ddl)
		if _, err := l.open(1, storetest.Lineage); stream.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.fix) {
			t.Errorf("%s: %v", c.ddl, err)
		}
	}
	l.cfg.Guard, l.cfg.Mode = idempotent.Counter, sqltxn.UpsertDelete
	cfg := l.cfg.WithDefaults()
	if errs := cfg.Problems(); len(errs) != 1 || stream.CodeOf(errs[0]) != "postgres.mode" {
		t.Errorf("deletes behind a guard: %v", errs)
	}
}
