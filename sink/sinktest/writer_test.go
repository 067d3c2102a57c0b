package sinktest

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"etl/checkpoint"
	"etl/sink"
	"etl/state"
	"etl/stream"
)

// memWriter is phase one of all kinds.
type memWriter struct {
	m   *memory
	env stream.Env

	open []line // the epoch that is written
	lent []*stream.Batch

	mu       sync.Mutex
	bad      []int // offsets of rows found bad in Finish, for the next PrepareCommit
	redo     []epoch
	unended  map[stream.CheckpointID]bool // prepared, not resolved
	resolved stream.CheckpointID
	moved    chan struct{}
	last     *checkpoint.Committable
	late     []Row // of the fault notFlushed
}

// line is a row and where it came from.
type line struct {
	Row
	offset int
}

// epoch is the rows of a checkpoint.
type epoch struct {
	id    stream.CheckpointID
	lines []line
	named bool // there is a committable
}

func (w *memWriter) name(id stream.CheckpointID) txnName {
	n := txnName{laneName: laneName{sinkName{w.env.Job, w.env.UID, w.env.Lineage}, w.env.Subtask}, attempt: w.env.Attempt, id: id}
	if w.m.is(namesWithoutAttempt) {
		n.attempt, n.id = 1, stream.NewCheckpointID(1, id.N())
	}
	return n
}

func (w *memWriter) Open(_ context.Context, env stream.Env, restored []state.Handle) error {
	w.env, w.unended = env, map[stream.CheckpointID]bool{}
	if w.m.is(rejectsForgotten) {
		return nil
	}
	for _, h := range restored {
		var bad []int
		if err := json.Unmarshal(h.Bytes, &bad); err != nil {
			return err
		}
		w.bad = append(w.bad, bad...)
	}
	return nil
}

func (w *memWriter) Write(_ context.Context, b *stream.Batch, out sink.Output) error {
	if w.m.is(batchesKept) || w.m.is(batchesRead) {
		w.lent = append(w.lent, b)
		if w.m.is(batchesRead) {
			b.Release()
		}
		return nil
	}
	w.take(b, out)
	b.Release()
	if w.m.is(batchesReleasedTwice) {
		b.Release()
	}
	return nil
}

func (w *memWriter) take(b *stream.Batch, out sink.Output) {
	for i := range b.Records {
		r := &b.Records[i]
		row, err := w.m.parse(r)
		switch {
		case err == nil:
			w.open = append(w.open, line{row, int(r.Offset)})
		case !w.m.is(rejectsDropped):
			out.Reject(*r, err)
		}
	}
}

func (w *memWriter) PrepareCommit(_ context.Context, id stream.CheckpointID, out sink.Output) (sink.Pending, error) {
	for _, b := range w.lent {
		w.take(b, out)
	}
	w.lent = nil
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, offset := range w.bad {
		out.Reject(stream.Record{Offset: int64(offset)}, errBadInFinish)
	}
	if !w.m.is(rejectsRepeated) {
		w.bad = nil
	}
	p := &memPending{w: w, epoch: epoch{id: id, lines: w.open}}
	if !w.m.is(epochNotSealed) {
		w.open = nil
	}
	return p, nil
}

func (w *memWriter) Published(id stream.CheckpointID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.m.is(finishBeforeDurable) && w.last != nil && w.last.Checkpoint <= id {
		n, rows := w.name(w.last.Checkpoint), rowsOf(w.redo[0].lines)
		w.last, w.redo = nil, nil
		_ = w.m.do(func() error { return w.m.srv.put(n, rows, w.deadline()) })
		_ = w.m.do(func() error { return w.m.srv.prepare(n) })
	}
}

func (w *memWriter) Resolved(id stream.CheckpointID, retired bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.m.is(oldNewsRefused) && id < w.resolved {
		panic("old news")
	}
	w.resolved = max(w.resolved, id)
	for n := range w.unended {
		if n <= id {
			delete(w.unended, n)
		}
	}
	close(w.moved)
	w.moved = make(chan struct{})
	if retired && w.m.is(markerForgotten) && id > 0 {
		w.m.srv.mu.Lock()
		delete(w.m.srv.markers, w.name(id).laneName)
		w.m.srv.mu.Unlock()
	}
}

func (w *memWriter) Aborted(_ context.Context, id stream.CheckpointID) error {
	if w.m.kind != reducing && !w.m.is(abortWritesAgain) && !w.m.is(abortDropsRows) && !w.m.is(replacesNotSaid) {
		return nil
	}
	n := w.name(id)
	if !w.m.is(abortWritesAgain) {
		if err := w.m.do(func() error {
			w.m.srv.abort(func(o txnName) bool { return o == n })
			return nil
		}); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.m.is(abortDropsRows) {
		w.redo = nil
	}
	delete(w.unended, id)
	return nil
}

func (w *memWriter) Close() error {
	if w.m.is(closeEnds) {
		_ = w.m.do(func() error {
			w.m.srv.abort(func(n txnName) bool { return n.sinkName == w.name(0).sinkName && n.attempt == w.env.Attempt })
			return nil
		})
	}
	if w.m.is(closeCommits) {
		for _, n := range w.m.srv.list(func(n txnName) bool { return n.laneName == w.name(0).laneName }) {
			_ = w.m.do(func() error { w.m.srv.commit(n); return nil })
		}
	}
	return nil
}

// settled waits until all that was prepared has ended.
func (w *memWriter) settled(ctx context.Context) error {
	for {
		w.mu.Lock()
		n, moved := len(w.unended), w.moved
		w.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-moved:
			if w.m.is(neverWaked) {
				<-ctx.Done()
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func rowsOf(lines []line) (rows []Row) {
	for _, l := range lines {
		rows = append(rows, l.Row)
	}
	return rows
}

// reduced returns the last row of each key.
func reduced(rows []Row) (out []Row) {
	seen := map[string]bool{}
	for _, r := range slices.Backward(rows) {
		if !seen[r.Key] {
			seen[r.Key] = true
			out = append(out, r)
		}
	}
	slices.Reverse(out)
	return out
}
