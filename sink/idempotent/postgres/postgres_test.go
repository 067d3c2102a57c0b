package postgres

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"etl/internal/pgtest"
	"etl/sink"
	"etl/sink/idempotent"
	"etl/sink/sqltxn"
	"etl/state"
	"etl/stream"
)

// attempt is a writer of the lab's sink.
type attempt struct {
	testing.TB
	w  sink.Writer
	no uint64
	n  uint64
}

var lineage = stream.Lineage{1, 2, 3}

func (l *lab) open(no uint64, line stream.Lineage, restored ...state.Handle) (*attempt, error) {
	w := New(l.cfg).NewWriter()
	l.Cleanup(func() { _ = w.Close() })
	err := w.Open(context.Background(), stream.Env{World: stream.SystemWorld(nil), Job: "job", UID: "out", Lineage: line, Attempt: stream.Attempt(no), Parallelism: 1}, restored)
	return &attempt{TB: l, w: w, no: no}, err
}

func (l *lab) mustOpen(no uint64, line stream.Lineage, restored ...state.Handle) *attempt {
	l.Helper()
	a, err := l.open(no, line, restored...)
	if err != nil {
		l.Fatal(err)
	}
	return a
}

type rejects []error

func (r *rejects) Reject(_ stream.Record, err error) { *r = append(*r, err) }

// flush writes rows and takes a checkpoint.
func (a *attempt) flush(out *rejects, rows ...stream.Record) (sink.Prepared, error) {
	b := stream.NewBatch(nil)
	for _, r := range rows {
		b.Append(r)
	}
	if err := a.w.Write(context.Background(), b, out); err != nil {
		return sink.Prepared{}, err
	}
	a.n++
	p, err := a.w.PrepareCommit(context.Background(), stream.NewCheckpointID(stream.Attempt(a.no), uint32(a.n)), out)
	if err != nil {
		return sink.Prepared{}, err
	}
	return p.Finish(context.Background(), nil)
}

func (a *attempt) mustFlush(rows ...stream.Record) {
	a.Helper()
	var out rejects
	if _, err := a.flush(&out, rows...); err != nil || len(out) > 0 {
		a.Fatal(err, out)
	}
}

// row is the value v of key k, its version v as well.
func row(k string, v int) stream.Record {
	return stream.Record{Key: []byte(k), Value: []byte(strconv.Itoa(v)), Version: uint64(v), Offset: int64(v) - 1, Topic: "in", Pos: -1}
}

func (l *lab) want(key, value string) {
	l.Helper()
	var got string
	if err := l.pool.QueryRow(context.Background(), "SELECT coalesce((SELECT n FROM out WHERE k = $1)::text, '')", key).Scan(&got); err != nil || got != value {
		l.Errorf("%s shows %q, want %q (%v)", key, got, value, err)
	}
}

// With the guard a reader never sees an older value in a replay; without, it does.
func TestReplay(t *testing.T) {
	for guard, older := range map[idempotent.Guard]bool{idempotent.Counter: false, idempotent.Position: false, idempotent.NoGuard: true} {
		l := newLab(t, pgtest.Shared(t), func(c *Config) { c.Guard = guard })
		l.mustOpen(1, lineage).mustFlush(row("k", 1), row("k", 2), row("k", 3), row("k", 4))
		b := l.mustOpen(2, lineage)
		b.mustFlush(row("k", 3))
		l.want("k", map[bool]string{true: "3", false: "4"}[older])
		b.mustFlush(row("k", 4), row("k", 5))
		l.want("k", "5")
	}
}

// A zombie writes in vain; what a new life of the job writes counts; so does what comes to
// a row that another program has written.
func TestScopes(t *testing.T) {
	l := newLab(t, pgtest.Shared(t), nil)
	l.exec("INSERT INTO out (k, n) VALUES ('old', 1)")
	zombie := l.mustOpen(1, lineage)
	zombie.mustFlush(row("k", 5), row("old", 2))
	l.want("old", "2")
	l.mustOpen(2, lineage).mustFlush(row("k", 7))
	zombie.mustFlush(row("k", 6))
	l.want("k", "7")
	l.mustOpen(1, stream.Lineage{9}).mustFlush(row("k", 1))
	l.want("k", "1")
}

// Positions of two partitions have no order: a key that moves goes on.
func TestPositionsOfTwoPartitions(t *testing.T) {
	l := newLab(t, pgtest.Shared(t), func(c *Config) { c.Guard = idempotent.Position })
	a := l.mustOpen(1, lineage)
	a.mustFlush(row("k", 100))
	moved := row("k", 3)
	moved.Partition = 1
	a.mustFlush(moved)
	l.want("k", "3")
}

// Under fail a row that the server refuses ends the job; under the others the rest of its
// batch is written, and so is the row of the same key that was good.
func TestRefusedRow(t *testing.T) {
	l := newLab(t, pgtest.Shared(t), nil)
	a := l.mustOpen(1, lineage)
	var out rejects
	got, err := a.flush(&out, row("good", 1), row("bad", 1), row("bad", -1))
	if err != nil || !got.More {
		t.Fatal(got, err)
	}
	l.want("good", "1")
	l.want("bad", "1")
	again := l.mustOpen(2, lineage, got.State...)
	if _, err := again.flush(&out); err != nil || len(out) != 1 || stream.CodeOf(out[0]) != "postgres.row" {
		t.Errorf("rejected after a restart: %v, %v", out, err)
	}
	l.cfg.OnError = idempotent.Fail
	if _, err := l.mustOpen(3, lineage).flush(&out, row("bad", -1)); stream.ClassOf(err) != stream.Failed || stream.CodeOf(err) != "postgres.row" {
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
		if _, err := l.open(1, lineage); stream.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.fix) {
			t.Errorf("%s: %v", c.ddl, err)
		}
	}
	l.cfg.Guard, l.cfg.Mode = idempotent.Counter, sqltxn.UpsertDelete
	cfg := l.cfg.WithDefaults()
	if errs := cfg.Problems(); len(errs) != 1 || stream.CodeOf(errs[0]) != "postgres.mode" {
		t.Errorf("deletes behind a guard: %v", errs)
	}
}
