package sinktest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"etl/checkpoint"
	"etl/sink"
	"etl/stream"
)

// lanes is a sink.Ledger whose commits wait until the test allows them.
type lanes struct {
	sink.Committer
	p      *process
	ledger *sink.Ledger

	mu      sync.Mutex
	free    bool
	turns   map[stream.TaskID]int
	changed chan struct{} // closed and replaced at every change
	writers []sink.Writer // once open
	err     error
}

func newLanes(p *process) *lanes {
	l := &lanes{Committer: p.committer, p: p, turns: map[stream.TaskID]int{}, changed: make(chan struct{})}
	committers := map[stream.UID]sink.Committer{}
	var names []stream.TaskID
	if p.committer != nil {
		committers[p.j.uid] = l
		for sub := range p.par {
			names = append(names, p.lane(sub))
		}
	}
	l.ledger = sink.NewLedger(p.ctx, sink.LedgerOptions{Clock: p.j.r.h.World.Clock, Committers: committers, Resolved: l.resolved, Failed: l.fail}, names)
	return l
}

func (l *lanes) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.changed)
	l.changed = make(chan struct{})
}

// await waits until cond, under the lock, says true.
func (l *lanes) await(ctx context.Context, cond func() bool) error {
	for {
		l.mu.Lock()
		ok, changed := cond(), l.changed
		l.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Commit waits for its turn. What the ledger asks for must be in the lane's order.
func (l *lanes) Commit(ctx context.Context, p checkpoint.Permit, c checkpoint.Committable) (sink.Result, error) {
	lane := c.Lane()
	if err := l.await(ctx, func() bool { return l.free || l.turns[lane] > 0 }); err != nil {
		return sink.Result{}, err
	}
	r, err := l.Committer.Commit(ctx, p, c)
	if r.Outcome != sink.Transient || err != nil {
		l.change(func() { l.turns[lane] = max(0, l.turns[lane]-1) })
	}
	if err == nil && (r.Outcome == sink.Done || r.Outcome == sink.Already) {
		l.p.j.r.note("committed %s of %s (%s)", c.Checkpoint, lane, r.Outcome)
		l.p.j.isCommitted(lane, c.Checkpoint)
	}
	return r, err
}

// resolved is the ledger's news, which goes to the writer from the lane's goroutine.
func (l *lanes) resolved(lane stream.TaskID, id stream.CheckpointID, retired bool) {
	l.mu.Lock()
	writers := l.writers
	l.mu.Unlock()
	if lane.Subtask < len(writers) && !l.p.n.isDead() {
		writers[lane.Subtask].Resolved(id, retired)
	}
}

func (l *lanes) fail(err error) {
	l.change(func() {
		if l.err == nil {
			l.err = err
		}
	})
}

func (l *lanes) staged(lane stream.TaskID, got sink.Prepared) {
	l.ledger.Staged(lane, got.Committables, got.Replaces)
}

// unresolved returns what the ledger holds of a lane up to id.
func (l *lanes) unresolved(lane stream.TaskID, id stream.CheckpointID) (out []checkpoint.Committable) {
	all, _ := l.ledger.List(id)
	for _, c := range all {
		if c.Lane() == lane {
			out = append(out, c)
		}
	}
	return out
}

// unresolved returns what the ledger holds of what is published.
func (p *process) unresolved() []checkpoint.Committable {
	cs, _ := p.lanes.ledger.List(p.published)
	return cs
}

// commit lets a lane commit the next thing it may, if there is any.
func (p *process) commit(sub int) { p.must(p.tryCommit(sub)) }

func (p *process) tryCommit(sub int) error {
	lane := p.lane(sub)
	before := len(p.lanes.unresolved(lane, p.published))
	if before == 0 {
		return nil
	}
	p.lanes.change(func() { p.lanes.turns[lane]++ })
	return p.call(fmt.Sprintf("commit on subtask %d", sub), func(ctx context.Context) error {
		return p.lanes.until(ctx, func() bool { return len(p.lanes.unresolved(lane, p.published)) < before })
	})
}

// settle commits everything that is published.
func (p *process) settle() { p.must(p.trySettle()) }

func (p *process) trySettle() error {
	if p.lanes.ledger.Settled(p.published) {
		return nil
	}
	p.lanes.change(func() { p.lanes.free = true })
	defer p.lanes.change(func() { p.lanes.free = false })
	return p.call("commit all", func(ctx context.Context) error {
		return p.lanes.until(ctx, func() bool { return p.lanes.ledger.Settled(p.published) })
	})
}

// until waits for cond, or for the ledger to fail.
func (l *lanes) until(ctx context.Context, cond func() bool) error {
	for {
		l.mu.Lock()
		err := l.err
		l.mu.Unlock()
		if err != nil || cond() {
			return err
		}
		if err := l.p.j.r.h.World.Clock.Sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}
