package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"etl/checkpoint"
	"etl/internal/broken"
	"etl/internal/fault"
	"etl/sink"
	"etl/state"
	"etl/stream"
)

// slowPart is what is left of a snapshot once the barrier has gone on (B6).
type slowPart struct {
	id              stream.CheckpointID
	begin           time.Time
	alignment, sync time.Duration
	writers         []preparing
	stores          []sealing
	splits          []stream.Split
	watermark       *int64
}

type preparing struct {
	lane    stream.TaskID
	pending sink.Pending
}

type sealing struct {
	task stream.TaskID
	snap state.Snapshot
}

// persister does the slow parts of a task's snapshots on one goroutine, each to
// its end, in id order: an acknowledgement of n+1 implies that n is durable (I6).
type persister struct {
	t      *task
	up     state.Uploader
	failed func(error)
	work   chan *slowPart

	mu   sync.Mutex
	last stream.CheckpointID // everything up to here has ended
	wait chan struct{}       // closed and replaced when last moves
}

func newPersister(t *task, up state.Uploader, failed func(error)) *persister {
	return &persister{t: t, up: up, failed: failed, work: make(chan *slowPart, 16), wait: make(chan struct{})}
}

func (p *persister) queue(w *slowPart) { p.work <- w }

// run works until the queue is closed. What is queued then is given up.
func (p *persister) run(ctx context.Context) {
	for w := range p.work {
		if ctx.Err() != nil {
			w.release(false)
			p.end(w.id)
			continue
		}
		p.persist(ctx, w)
		p.end(w.id)
		p.t.ctl.tell(persisted{w.id})
	}
}

func (p *persister) end(id stream.CheckpointID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = id
	close(p.wait)
	p.wait = make(chan struct{})
}

// ended reports whether the slow part of id has ended.
func (p *persister) ended(id stream.CheckpointID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last >= id
}

// await waits until the slow part of id has ended. The task calls it, and goes on
// with its copy-out meanwhile: Finish and Persist need nothing else of it.
func (p *persister) await(ctx context.Context, id stream.CheckpointID) error {
	for p.t.copying {
		if err := p.t.slice(); err != nil {
			return err
		}
	}
	for {
		p.mu.Lock()
		last, wait := p.last, p.wait
		p.mu.Unlock()
		if last >= id {
			return nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// persist is step B6: it finishes the writers, then the stores, and acknowledges. What
// writers have prepared is reported even if the checkpoint is declined: it is
// listed by the next one (I7).
func (p *persister) persist(ctx context.Context, w *slowPart) {
	p.t.env.Listener.Did("B6", p.t.id, w.id)
	begin := p.t.env.Clock.Now()
	ack := checkpoint.Ack{Task: p.t.id, ID: w.id}
	for i, pr := range w.writers {
		fault.Point("task.finish.before")
		finish := p.t.env.Clock.Now()
		p.t.where.prepares.Store(&pr.lane)
		got, err := pr.pending.Finish(ctx, p.up)
		p.t.where.prepares.Store(nil)
		p.part("pre_commit", pr.lane, w.id, finish)
		if err != nil {
			w.stop(i + 1)
			w.release(false)
			p.finishFailed(ctx, ack, pr.lane, err)
			return
		}
		fault.Point("task.finish.after")
		if len(got.Committables) == 0 {
			p.t.env.Listener.OnTransaction(stream.TransactionEvent{Task: pr.lane, ID: w.id, State: stream.TransactionEnded})
		}
		ack.Prepared = append(ack.Prepared, checkpoint.Prepared{Lane: pr.lane, Committables: got.Committables, Replaces: got.Replaces})
		ack.More = ack.More || got.More
		if len(got.State) > 0 {
			ack.States = append(ack.States, checkpoint.TaskState{TaskID: pr.lane, Handles: got.State})
		}
	}
	err := p.stores(ctx, w, &ack)
	if w.splits != nil {
		ack.States = append(ack.States, checkpoint.TaskState{TaskID: p.t.id, Splits: w.splits, Watermark: w.watermark})
	}
	ack.Alignment, ack.Sync, ack.Persist = w.alignment, w.sync, p.t.env.Clock.Now().Sub(begin)
	if errors.Is(err, checkpoint.ErrNotDurable) {
		p.failed(err) // a failed fsync is never retried (I16)
		return
	}
	if err != nil {
		p.t.runner.Decline(ack, checkpoint.UploadFailed, err)
		return
	}
	fault.Point("task.acknowledge.before")
	p.t.runner.Acknowledge(ack)
	fault.Point("task.acknowledge.after")
}

// finishFailed ends the attempt: rows may be lost (I8).
func (p *persister) finishFailed(ctx context.Context, ack checkpoint.Ack, lane stream.TaskID, err error) {
	if broken.Is(broken.FinishErrorTolerated) {
		p.t.runner.Decline(ack, checkpoint.SinkDeclined, err)
		return
	}
	if ctx.Err() == nil {
		p.failed(fmt.Errorf("prepare %s of %s: %w", ack.ID, lane, err))
	}
}

// stores persists the keyed snapshots. A failure of one does not keep the others
// from being persisted: their segments belong to the chain of changes (I7).
func (p *persister) stores(ctx context.Context, w *slowPart, ack *checkpoint.Ack) (first error) {
	for _, s := range w.stores {
		begin := p.t.env.Clock.Now()
		hs, err := s.snap.Persist(ctx, p.up)
		p.part("upload", s.task, w.id, begin)
		s.snap.Release(err == nil)
		if err != nil {
			if first == nil {
				first = fmt.Errorf("persist %s of %s: %w", w.id, s.task, err)
			}
			continue
		}
		for _, h := range hs {
			if h.Role == state.Segment && h.To == w.id {
				ack.Delta += h.Size
			}
		}
		ack.States = append(ack.States, checkpoint.TaskState{TaskID: s.task, Handles: hs})
	}
	return first
}

func (p *persister) part(name string, task stream.TaskID, id stream.CheckpointID, begin time.Time) {
	p.t.env.Listener.OnPart(stream.PartEvent{Part: name, Task: task, ID: id, Begin: begin, Took: p.t.env.Clock.Now().Sub(begin)})
}

// stop forgets the first n writers: their Finish was called.
func (w *slowPart) stop(n int) { w.writers = w.writers[n:] }

// release gives up the snapshots that were not persisted.
func (w *slowPart) release(persisted bool) {
	for _, s := range w.stores {
		s.snap.Release(persisted)
	}
	w.stores = nil
}
