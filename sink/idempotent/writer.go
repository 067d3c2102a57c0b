package idempotent

import (
	"context"
	"fmt"
	"sync"

	"etl/internal/fault"
	"etl/sink"
	"etl/state"
	"etl/stream"
)

// Writer writes the rows of one subtask to a Store; see the package comment.
type Writer struct {
	cfg   Config
	store Store
	env   stream.Env

	ctx    context.Context // the writer's life
	cancel context.CancelFunc
	wg     sync.WaitGroup

	// The task goroutine's.
	versions *Versions
	cur      Rows // the open batch, nil before its first row
	size     int  // its bytes

	mu      sync.Mutex
	moved   chan struct{} // closed and replaced whenever what is below changes
	queue   []batch
	waiting int    // bytes in queue, and in the batch that is being written
	sealed  uint64 // number of the last batch that was handed over
	written uint64 // and of the last one that is acknowledged
	failure error
	rejects []waiting
}

// batch is Rows on their way. number counts from 1.
type batch struct {
	rows   Rows
	number uint64
	size   int
}

// NewWriter returns a writer for one subtask. Config need not have its defaults.
func NewWriter(cfg Config, s Store) *Writer {
	return &Writer{cfg: cfg.WithDefaults(), store: s, moved: make(chan struct{})}
}

var _ sink.Writer = (*Writer)(nil)

// Open opens the store and asks it whether it still has what the restored checkpoint says.
func (w *Writer) Open(ctx context.Context, env stream.Env, restored []state.Handle) error {
	w.env = env
	if w.env.Counters == nil {
		w.env.Counters = new(stream.Counters)
	}
	w.versions = NewVersions(w.cfg.Guard, env.Lineage)
	w.ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := w.open(ctx, restored); err != nil {
		return fmt.Errorf("open sink %s: %w", env.Task(), err)
	}
	w.wg.Go(w.send)
	return nil
}

func (w *Writer) open(ctx context.Context, restored []state.Handle) error {
	var tokens [][]byte
	for _, h := range restored {
		k, err := decode(h)
		if err != nil {
			return err
		}
		if len(k.Token) > 0 {
			tokens = append(tokens, k.Token)
		}
		for _, r := range k.Rejects {
			w.found(0, []Rejected{r.load()})
		}
	}
	if err := w.store.Open(ctx, w.env); err != nil {
		return err
	}
	if k, ok := w.store.(Keeper); ok && len(tokens) > 0 {
		return k.Kept(ctx, tokens)
	}
	return nil
}

// Write puts the rows of b into batches (R7). It takes over the reference to b, whose bytes
// are not needed afterwards.
func (w *Writer) Write(ctx context.Context, b *stream.Batch, out sink.Output) error {
	defer b.Release()
	rows, bytes := int64(0), 0
	for i := range b.Records {
		rec := &b.Records[i]
		v, err := w.versions.Of(rec)
		if err != nil {
			return err
		}
		if w.cur == nil {
			w.cur = w.store.Begin()
		}
		n, err := w.cur.Add(rec, v)
		switch {
		case stream.ClassOf(err) == stream.Environment:
			return err
		case err != nil:
			out.Reject(*rec, err)
			continue
		}
		rows, bytes, w.size = rows+1, bytes+n, w.size+n
		if w.cur.Len() >= w.cfg.BatchRows || w.size >= w.cfg.BatchBytes {
			if err := w.room(ctx); err != nil {
				return err
			}
			w.handOver()
		}
	}
	w.env.Counters.RecordsOut.Add(rows)
	w.env.Counters.BytesOut.Add(int64(bytes))
	if w.idle() {
		w.handOver() // nothing is gained by waiting for more
	}
	return w.failed()
}

// room waits until no more than QueueBytes wait to be written.
func (w *Writer) room(ctx context.Context) error {
	return w.await(ctx, func() bool { return w.waiting == 0 || w.waiting+w.size <= w.cfg.QueueBytes })
}

// await returns when ok, which is called under w.mu, or when the writer has failed.
func (w *Writer) await(ctx context.Context, ok func() bool) error {
	for {
		w.mu.Lock()
		err, done, moved := w.failure, ok(), w.moved
		w.mu.Unlock()
		if err != nil || done {
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (w *Writer) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sealed == w.written
}

func (w *Writer) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}

// handOver gives the open batch to the sender and returns the number of the last one.
func (w *Writer) handOver() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cur == nil {
		return w.sealed
	}
	if w.cur.Len() == 0 {
		w.cur.Free()
	} else {
		w.sealed++
		w.queue = append(w.queue, batch{rows: w.cur, number: w.sealed, size: w.size})
		w.waiting += w.size
		w.move()
	}
	w.cur, w.size = nil, 0
	return w.sealed
}

// move wakes who waits. w.mu is held.
func (w *Writer) move() {
	close(w.moved)
	w.moved = make(chan struct{})
}

// PrepareCommit rejects what the target has refused, and hands the open batch over (B4). It
// waits for nothing.
func (w *Writer) PrepareCommit(_ context.Context, id stream.CheckpointID, out sink.Output) (sink.Pending, error) {
	if err := w.failed(); err != nil {
		return nil, err
	}
	for _, r := range w.emit(id) {
		out.Reject(r.Record, r.err())
	}
	return &pending{w: w, id: id, last: w.handOver()}, nil
}

// pending is the rows before a barrier on their way (B6). last is their last batch.
type pending struct {
	w    *Writer
	id   stream.CheckpointID
	last uint64
}

// Finish returns when the target has acknowledged all rows before the barrier. There is no
// committable: the rows are there.
func (p *pending) Finish(ctx context.Context, _ state.Uploader) (out sink.Prepared, err error) {
	w := p.w
	if err := w.await(ctx, func() bool { return w.written >= p.last }); err != nil {
		return out, fmt.Errorf("flush checkpoint %s of %s: %w", p.id, w.env.Task(), err)
	}
	fault.Point("idempotent.flushed")
	k := kept{Rejects: w.keep(p.id, p.last)}
	if s, ok := w.store.(Keeper); ok {
		err := w.patiently(ctx, func() (err error) { k.Token, err = s.Keep(ctx, p.id); return err })
		if err != nil {
			return out, fmt.Errorf("note checkpoint %s of %s: %w", p.id, w.env.Task(), err)
		}
	}
	out.State, err = k.encode()
	out.More = len(k.Rejects) > 0
	return out, err
}

// Published drops rejects that are behind the checkpoint.
func (w *Writer) Published(id stream.CheckpointID) { w.forget(id) }

// Resolved has nothing to do: nothing is committed.
func (w *Writer) Resolved(stream.CheckpointID, bool) {}

// Aborted has nothing to do: the rows are there, and a replay writes them again.
func (w *Writer) Aborted(context.Context, stream.CheckpointID) error { return nil }

// Close frees resources. Rows that wait are not written: no checkpoint has them.
func (w *Writer) Close() error {
	if w.cancel == nil {
		return nil
	}
	w.cancel()
	w.wg.Wait()
	if w.cur != nil {
		w.cur.Free()
		w.cur = nil
	}
	for _, b := range w.queue {
		b.rows.Free()
	}
	w.queue = nil
	return w.store.Close()
}

// Connector is an idempotent sink as a program plugs it in. NewStore makes the target of
// one subtask.
type Connector struct {
	Config   Config
	NewStore func() Store
}

// NewWriter returns the writer of a subtask.
func (c Connector) NewWriter() sink.Writer { return NewWriter(c.Config, c.NewStore()) }

// NewCommitter returns nil: nothing is committed.
func (c Connector) NewCommitter() sink.Committer { return nil }

// Features returns what the sink can do: it needs a key, and its last row counts.
func (c Connector) Features() sink.Features { return c.Config.WithDefaults().Guard.Features() }

var _ sink.Connector = Connector{}

// Features are those of every idempotent sink with a guard.
func (g Guard) Features() sink.Features {
	return sink.Features{Ordered: true, Upsert: true, NeedsKey: true, Guarded: g != NoGuard}
}
