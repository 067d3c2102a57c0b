package pipeline

import (
	"context"
	"slices"
	"time"

	"etl/checkpoint"
	"etl/internal/broken"
	"etl/internal/fault"
	"etl/stream"
	"etl/transform"
)

// inject is step B2: a source task takes a barrier from the coordinator. Its
// positions are taken before the barrier is emitted, between two Polls.
func (t *task) inject(ctx context.Context, b stream.Barrier) error {
	t.env.Listener.Did("B2", t.id, b.ID)
	if b.Kind == stream.Final {
		t.frozen = true
	}
	return t.snapshot(ctx, b)
}

// barrier is step B3: a barrier has come over an input. What was told before it was
// triggered is heard before it is obeyed: that the checkpoint before was aborted, above all.
func (t *task) barrier(ctx context.Context, input int, b stream.Barrier) error {
	if err := t.listen(ctx); err != nil {
		return err
	}
	t.env.Listener.Did("B3", t.id, b.ID)
	if b.ID > t.aligner.Aligning().ID { // a stale one begins nothing
		t.aligned = t.env.Clock.Now()
	}
	if broken.Is(broken.AlignmentSkipped) {
		if b.ID > t.lastPrepared() {
			return t.snapshot(ctx, b)
		}
		return nil
	}
	return t.act(ctx, t.aligner.Step(checkpoint.BarrierOn{Input: input, Barrier: b}))
}

func (t *task) act(ctx context.Context, actions []checkpoint.Action) error {
	for _, a := range actions {
		switch a := a.(type) {
		case checkpoint.Block:
			t.blocked[a.Input], t.holding = true, true
		case checkpoint.Unblock:
			clear(t.blocked)
			t.holding = false
		case checkpoint.Snapshot:
			if err := t.snapshot(ctx, a.Barrier); err != nil {
				return err
			}
		}
	}
	return nil
}

// aborted takes the news that a checkpoint can never be published.
func (t *task) aborted(ctx context.Context, id stream.CheckpointID) error {
	if t.aligner != nil {
		if err := t.act(ctx, t.aligner.Step(checkpoint.Cancelled{ID: id})); err != nil {
			return err
		}
	}
	if slices.Contains(t.prepared, id) {
		t.given = append(t.given, id)
	}
	return t.giveUp(ctx, false)
}

// giveUp tells the writers about aborted checkpoints whose Finish has returned;
// with wait it waits for those that have not, because no PrepareCommit may come
// before.
func (t *task) giveUp(ctx context.Context, wait bool) error {
	for len(t.given) > 0 {
		id := t.given[0]
		if !t.persist.ended(id) {
			if !wait {
				return nil
			}
			if err := t.persist.await(ctx, id); err != nil {
				return err
			}
		}
		t.given = t.given[1:]
		for _, l := range t.links {
			if l.writer != nil {
				fault.Point("task.aborted")
				if err := l.writer.Aborted(ctx, id); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (t *task) lastPrepared() stream.CheckpointID {
	if len(t.prepared) == 0 {
		return stream.NoCheckpoint
	}
	return t.prepared[len(t.prepared)-1]
}

// snapshot is steps B4 and B5: the quick part down the chain, then the barrier
// goes on, then the slow part is queued (I3).
func (t *task) snapshot(ctx context.Context, b stream.Barrier) error {
	begin := t.env.Clock.Now()
	t.env.Listener.Did("B4", t.id, b.ID)
	fault.Point("task.snapshot.before")
	if err := t.beforeBarrier(ctx, b.ID); err != nil {
		return err
	}
	if err := t.giveUp(ctx, true); err != nil {
		return err
	}
	w := &slowPart{id: b.ID, begin: begin}
	arrived := begin
	if t.reader == nil && !t.aligned.IsZero() {
		arrived, w.alignment = t.aligned, begin.Sub(t.aligned)
	}
	if err := t.seal(ctx, b, w); err != nil {
		return err
	}
	t.asked = false
	t.prepared = append(t.prepared, b.ID)
	if n := len(t.prepared); n > 64 { // far more than can be under way
		t.prepared = slices.Clone(t.prepared[n-32:])
	}
	fault.Point("task.snapshot.sealed")
	t.env.Listener.Did("B5", t.id, b.ID)
	if err := t.broadcast(ctx, b); err != nil {
		return err
	}
	t.dirty = false
	fault.Point("task.barrier.forwarded")
	if broken.Is(broken.OffsetsAfterBarrier) && t.reader != nil {
		if err := t.readOn(ctx, w); err != nil {
			return err
		}
	}
	w.sync = t.env.Clock.Now().Sub(begin)
	t.part("start_delay", b.ID, b.TriggeredAt, arrived.Sub(b.TriggeredAt))
	if w.alignment > 0 {
		t.part("align", b.ID, t.aligned, w.alignment)
	}
	t.part("snapshot", b.ID, begin, w.sync)
	t.persist.queue(w)
	return nil
}

// part tells how long a part of a checkpoint took on the task.
func (t *task) part(name string, id stream.CheckpointID, begin time.Time, took time.Duration) {
	t.env.Listener.OnPart(stream.PartEvent{Part: name, Task: t.id, ID: id, Begin: begin, Took: took})
}

// beforeBarrier lets operators emit what belongs to the checkpoint, the first of
// the chain first.
func (t *task) beforeBarrier(ctx context.Context, id stream.CheckpointID) error {
	for _, l := range t.links {
		if bb, ok := l.op.(transform.BeforeBarrier); ok {
			err := l.settle(ctx, func() (bool, error) { return bb.BeforeBarrier(ctx, id, l.out) })
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// seal asks every writer to prepare, then every store and the reader for their
// snapshots.
func (t *task) seal(ctx context.Context, b stream.Barrier, w *slowPart) error {
	for _, l := range t.links {
		if l.writer == nil {
			continue
		}
		before := t.where.enter(l)
		p, err := l.writer.PrepareCommit(ctx, b.ID, l.out)
		t.where.leave(before)
		if err != nil {
			return err
		}
		if err := l.drain(ctx); err != nil {
			return err
		}
		if l.opened {
			l.opened = false
			l.env.Listener.OnTransaction(stream.TransactionEvent{Task: l.env.Task(), ID: b.ID, State: stream.TransactionFlushed})
		}
		w.writers = append(w.writers, preparing{l.env.Task(), p})
	}
	for _, l := range t.links {
		if l.store == nil {
			continue
		}
		s, err := l.store.Snapshot(b.ID)
		if err != nil {
			return err
		}
		w.stores = append(w.stores, sealing{l.env.Task(), s})
		t.copying = true
	}
	if t.reader != nil {
		w.splits = t.reader.Splits()
	}
	if t.marks != nil {
		w.watermark = t.marks.value()
	}
	return nil
}

// readOn breaks the rule that positions are taken before the barrier is emitted:
// the negative control offsets-after-barrier.
func (t *task) readOn(ctx context.Context, w *slowPart) error {
	t.reader.Wake()
	el, err := t.reader.Poll(ctx)
	if err != nil {
		return err
	}
	switch e := el.(type) {
	case *stream.Batch:
		err = t.links[0].push(ctx, e)
	case stream.EndOfInput:
		err = t.endOfInput(ctx, 0)
	}
	w.splits = t.reader.Splits()
	return err
}
