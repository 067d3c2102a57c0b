// Package storetest is what the tests of the stores behind package idempotent share: a
// writer that is led by hand, rows with versions, and the story of a replay.
package storetest

import (
	"context"
	"strconv"
	"testing"

	"etl/sink"
	"etl/sink/idempotent"
	"etl/sink/sinktest"
	"etl/state"
	"etl/stream"
)

// Lineage is the life of the job that most tests are in.
var Lineage = stream.Lineage{1, 2, 3}

// Attempt is a writer of the sink "out" in an attempt of its job.
type Attempt struct {
	testing.TB
	w  sink.Writer
	no stream.Attempt
	n  uint32
}

// Open starts an attempt on what a checkpoint kept.
func Open(t testing.TB, s sink.Connector, job string, no stream.Attempt, life stream.Lineage, restored ...state.Handle) (*Attempt, error) {
	w := s.NewWriter()
	t.Cleanup(func() { _ = w.Close() })
	err := w.Open(context.Background(), stream.Env{World: stream.SystemWorld(nil), Job: job, UID: "out", Lineage: life, Attempt: no, Parallelism: 1}, restored)
	return &Attempt{TB: t, w: w, no: no}, err
}

// Rejects are the reasons why records were rejected.
type Rejects []error

// Reject implements sink.Output.
func (r *Rejects) Reject(_ stream.Record, err error) { *r = append(*r, err) }

// Flush writes rows and takes a checkpoint.
func (a *Attempt) Flush(out *Rejects, rows ...stream.Record) (sink.Prepared, error) {
	b := stream.NewBatch(nil)
	for _, r := range rows {
		b.Append(r)
	}
	if err := a.w.Write(context.Background(), b, out); err != nil {
		return sink.Prepared{}, err
	}
	a.n++
	p, err := a.w.PrepareCommit(context.Background(), stream.NewCheckpointID(a.no, a.n), out)
	if err != nil {
		return sink.Prepared{}, err
	}
	return p.Finish(context.Background(), nil)
}

// MustFlush is Flush of rows that are taken.
func (a *Attempt) MustFlush(rows ...stream.Record) sink.Prepared {
	a.Helper()
	var out Rejects
	got, err := a.Flush(&out, rows...)
	if err != nil || len(out) > 0 {
		a.Fatal(err, out)
	}
	return got
}

// Row is the value v of key k, its version v as well.
func Row(k string, v int) stream.Record {
	return stream.Record{Key: []byte(k), Value: []byte(strconv.Itoa(v)), Version: uint64(v), Offset: int64(v) - 1, Topic: "in", Pos: -1}
}

// Record is a row of the suite of all sinks, with the version that the job would have
// counted.
func Record(b *stream.Batch, r sinktest.Row) stream.Record {
	return stream.Record{Key: b.Copy([]byte(r.Key)), Value: b.Copy(strconv.AppendInt(nil, int64(r.N), 10)), Version: uint64(r.N) + 1}
}

// Store is a store with the sink in front of it.
type Store interface {
	// MustOpen starts an attempt in the life [Lineage].
	MustOpen(no stream.Attempt, restored ...state.Handle) *Attempt
	// Want demands that readers see a value under a key, "" for none.
	Want(key, value string)
}

// Replay demands that a reader never sees an older value in a replay with a guard; without
// one, it does. open makes an empty store.
func Replay(open func(idempotent.Guard) Store) {
	for guard, seen := range map[idempotent.Guard]string{idempotent.Counter: "4", idempotent.Position: "4", idempotent.NoGuard: "3"} {
		s := open(guard)
		a := s.MustOpen(1)
		restored := a.MustFlush(Row("k", 1), Row("k", 2)).State
		a.MustFlush(Row("k", 3), Row("k", 4))
		b := s.MustOpen(2, restored...)
		b.MustFlush(Row("k", 3))
		s.Want("k", seen)
		b.MustFlush(Row("k", 4), Row("k", 5))
		s.Want("k", "5")
	}
}
