package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"etl/sink"
	"etl/sink/sqltxn"
	"etl/state"
	"etl/stream"
)

// Writer is phase one of one subtask; see the package comment.
type Writer struct {
	sink *Sink
	cfg  Config
	env  stream.Env
	id   identity

	pools *pools
	plan  *plan
	mem   *sqltxn.Memory

	ctx    context.Context // the writer's life
	cancel context.CancelFunc
	wg     sync.WaitGroup

	// The task goroutine's.
	encode  sqltxn.Encoder
	row     *sqltxn.Row
	cur     *sqltxn.Rows // the open epoch, nil before its first row
	records int64        // of the open epoch

	// Rolling back belongs to whoever holds rolling: Aborted, or the next Finish.
	rolling sync.Mutex

	mu      sync.Mutex
	epochs  []*epoch // sealed and not resolved, in order
	moved   chan struct{}
	rejects []rejected
	retired int // checkpoints since the last purge of markers
	purging bool
}

var _ sink.Writer = (*Writer)(nil)

// Open connects, decides how to write, and sets up the fence. restored are rows that an
// earlier attempt found bad and has not rejected.
func (w *Writer) Open(ctx context.Context, env stream.Env, restored []state.Handle) error {
	w.env = env
	if w.env.Counters == nil {
		w.env.Counters = new(stream.Counters)
	}
	w.moved = make(chan struct{})
	w.id = identity{World: env.World, book: w.cfg.book(env.Job, env.UID, env.Lineage), attempt: env.Attempt}
	w.ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := w.open(ctx, restored); err != nil {
		return fmt.Errorf("open sink %s: %w", env.Task(), err)
	}
	return nil
}

func (w *Writer) open(ctx context.Context, restored []state.Handle) (err error) {
	if w.cfg.Encoder == nil {
		return errors.New("no encoder is given")
	}
	for _, h := range restored {
		rs, err := sqltxn.DecodeRejects(h.Bytes)
		if err != nil {
			return err
		}
		w.found(stream.NoCheckpoint, rs)
	}
	if w.pools, err = w.sink.open(ctx, w.id); err != nil {
		return err
	}
	if w.plan, err = w.sink.resolve(ctx, w.id, w.pools); err != nil {
		return err
	}
	name := fmt.Sprintf("etl-%s-%d-%s-%d", env8(w.env), w.env.Attempt, safe(string(w.env.UID)), w.env.Subtask)
	w.mem = sqltxn.NewMemory(w.env.FS, w.cfg.Memory, w.cfg.SpillDir, name)
	w.encode, w.row = w.cfg.Encoder(), sqltxn.NewRow(w.plan.target)
	if w.plan.Strategy == direct {
		return nil
	}
	return w.enter(ctx)
}

func env8(e stream.Env) string { return e.Lineage.Short() }

// safe makes a name fit for a file.
func safe(s string) string {
	b := []byte(s)
	for i, c := range b {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			b[i] = '_'
		}
	}
	return string(b[:min(len(b), 100)])
}

// Write encodes the rows of b and keeps them (R7). It takes over the reference to b, whose
// bytes are not needed afterwards.
func (w *Writer) Write(ctx context.Context, b *stream.Batch, out sink.Output) error {
	defer b.Release()
	if err := w.room(ctx); err != nil {
		return err
	}
	if w.cur == nil {
		w.cur = w.newRows()
	}
	rows, bytes := int64(0), int64(0)
	for i := range b.Records {
		rec := &b.Records[i]
		w.row.Reset()
		err := w.encode(rec, w.row)
		if err == nil {
			err = w.cur.Add(w.row, rec)
		}
		if stream.ClassOf(err) == stream.Environment {
			return err // no room to spill: not the record's fault
		}
		if err != nil {
			out.Reject(*rec, err)
			continue
		}
		rows++
		bytes += int64(w.row.Size())
	}
	w.records += rows
	w.env.Counters.RecordsOut.Add(rows)
	w.env.Counters.BytesOut.Add(bytes)
	if w.cfg.transactional() {
		w.env.Counters.Uncommitted.Add(rows)
	}
	return nil
}

// newRows returns an empty epoch. Whoever goes on without a bad row needs the one before
// it: what is staged is not reduced then, because a row may turn out to be bad when it is
// merged.
func (w *Writer) newRows() *sqltxn.Rows {
	tolerant := w.cfg.OnError != Fail
	rows := sqltxn.NewRows(w.mem, w.cfg.Mode != Append && !(tolerant && w.plan.Strategy == Staged), w.cfg.OnError == DeadLetter)
	if tolerant {
		rows.KeepReplaced()
	}
	return rows
}

// PrepareCommit rejects what earlier Finishes found bad, and seals the open epoch (B4). It
// waits for nothing.
func (w *Writer) PrepareCommit(_ context.Context, id stream.CheckpointID, out sink.Output) (sink.Pending, error) {
	for _, r := range w.emit(id) {
		out.Reject(r.Record, r.Err())
	}
	e := &epoch{id: id, rows: w.cur, records: w.records, ended: make(chan struct{})}
	w.cur, w.records = nil, 0
	if e.rows == nil {
		e.rows = w.newRows()
	}
	w.mu.Lock()
	w.epochs = append(w.epochs, e)
	w.mu.Unlock()
	return &pending{w, e}, nil
}

// Published drops the rows that belong to the log now.
func (w *Writer) Published(id stream.CheckpointID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.epochs {
		if e.id <= id {
			e.published = true
			e.free()
		}
	}
	w.forget(id)
	if w.plan.Strategy == direct { // nothing is committed later
		w.drop(id)
	}
}

// drop forgets the epochs up to id that are published. w.mu is held.
func (w *Writer) drop(id stream.CheckpointID) {
	rest := w.epochs[:0]
	for _, e := range w.epochs {
		if e.id > id || !e.published {
			rest = append(rest, e)
			continue
		}
		if w.plan.Strategy != direct {
			w.env.Counters.Uncommitted.Add(-e.records)
		}
	}
	clear(w.epochs[len(rest):])
	w.epochs = rest
}

// Resolved forgets epochs that are committed; the next one may be prepared then. It comes
// from the ledger at any time.
func (w *Writer) Resolved(id stream.CheckpointID, retired bool) {
	w.mu.Lock()
	w.drop(id)
	w.notify()
	w.mu.Unlock()
	if retired {
		w.purge(id)
	}
}

// notify wakes who waits for an epoch to move. w.mu is held.
func (w *Writer) notify() {
	close(w.moved)
	w.moved = make(chan struct{})
}

// Aborted rolls the transaction of an aborted checkpoint back, so that nobody waits for its
// locks: its rows go with those of the next checkpoint (I7). Where epochs overlap it stays,
// as staged rows do, and the next checkpoint lists it.
func (w *Writer) Aborted(ctx context.Context, id stream.CheckpointID) error {
	e := w.giveUp(id)
	if e == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, abortPatience)
	defer cancel()
	err := w.rollback(ctx, e)
	if stream.ClassOf(err) == stream.Retry || ctx.Err() != nil {
		w.env.Log.Info("an aborted transaction is not rolled back yet", "checkpoint", id.String(), "error", err)
		return nil // the next Finish does it before it prepares anything
	}
	return err
}

// giveUp marks an epoch as aborted, nil when there is nothing to roll back.
func (w *Writer) giveUp(id stream.CheckpointID) *epoch {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.epochs {
		if e.id != id {
			continue
		}
		if !w.oneInFlight() || e.published {
			return nil
		}
		e.aborted = true
		w.notify()
		return e
	}
	return nil
}

// Close frees resources. What is prepared or staged stays on the server: the ledger or the
// next attempt finishes it.
func (w *Writer) Close() error {
	if w.cancel == nil {
		return nil
	}
	w.cancel()
	w.wg.Wait()
	w.mu.Lock()
	for _, e := range w.epochs {
		e.free()
	}
	w.epochs = nil
	w.mu.Unlock()
	if w.cur != nil {
		w.cur.Free()
		w.cur = nil
	}
	if w.pools != nil {
		w.sink.release(w.id, w.pools)
		w.pools = nil
	}
	return nil
}
