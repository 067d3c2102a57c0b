package pipeline

import (
	"context"
	"fmt"
	"time"

	"etl/checkpoint"
	"etl/source"
	"etl/stream"
)

// task is one subtask of a chain. Its fields belong to the task goroutine, except
// where they say otherwise.
type task struct {
	id      stream.TaskID
	env     stream.Env
	mode    checkpoint.Mode
	links   []*link // in chain order, the head first
	ctl     *control
	runner  *checkpoint.Runner
	persist *persister
	where   whereabouts

	// A source task has a reader, any other an inbox.
	reader  source.Reader
	in      *inbox
	aligner *checkpoint.Aligner
	blocked []bool     // inputs behind a barrier
	held    []envelope // what came over them, in order
	holding bool       // some input is blocked
	marks   *watermarks
	ended   []bool // inputs that have ended
	aligned time.Time

	sends    bool // the chain has exchanges
	asked    bool // for a checkpoint, because a store is over its budget
	frozen   bool // a source behind its final barrier reads no more
	finished bool // a source that has read everything
	dirty    bool // something is coalesced in an exchange and not sent
	copying  bool // a store has entries of a sealed epoch to copy out
	// prepared are the checkpoints the writers were asked to prepare, given the
	// aborted ones among them, whose writers must be told before they prepare again.
	prepared, given []stream.CheckpointID
}

// run is step R4: the only loop that takes an element. It returns the error that
// ends the attempt; ctx ends it from outside.
func (t *task) run(ctx context.Context) error {
	for {
		if err := t.listen(ctx); err != nil {
			return err
		}
		input, el, err := t.next(ctx)
		if err != nil {
			return err
		}
		begin := t.env.Clock.Now()
		switch e := el.(type) {
		case nil: // woken, or nothing there
		case *stream.Batch:
			t.env.Listener.Did("R4", t.id, stream.NoCheckpoint)
			t.dirty = t.sends
			t.marks.active(input)
			err = t.links[0].push(ctx, e)
			t.watchBudget()
		case stream.Barrier:
			err = t.barrier(ctx, input, e)
		case stream.Watermark:
			err = t.watermark(ctx, input, e)
		case stream.Idle:
			err = t.idle(ctx, input)
		case stream.EndOfInput:
			err = t.endOfInput(ctx, input)
		default:
			err = fmt.Errorf("element %T", el)
		}
		if err != nil {
			return fmt.Errorf("task %s: %w", t.id, err)
		}
		if el != nil {
			t.links[0].c.BusyNanos.Add(int64(t.env.Clock.Now().Sub(begin)))
			if t.in != nil {
				t.in.done(input)
			}
		}
	}
}

// listen does what others have told the task.
func (t *task) listen(ctx context.Context) error {
	for _, m := range t.ctl.take() {
		var err error
		switch m := m.(type) {
		case inject:
			err = t.inject(ctx, m.barrier)
		case aborted:
			err = t.aborted(ctx, m.id)
		case persisted:
			err = t.giveUp(ctx, false)
		case assign:
			t.finished = false
			err = t.reader.Assign(m.splits)
		}
		if err != nil {
			return fmt.Errorf("task %s: %w", t.id, err)
		}
	}
	return nil
}

// next returns the next element, or nil when there is something else to do. Work
// of its own, slices of a copy-out and sending what is coalesced, is done only
// while no element is there.
func (t *task) next(ctx context.Context) (int, stream.Element, error) {
	if t.copying {
		if err := t.slice(); err != nil {
			return 0, nil, err
		}
	}
	busy := t.copying || t.dirty
	input, el, ok, err := t.intake(ctx, !busy)
	if err != nil || ok {
		return input, el, err
	}
	if t.dirty {
		t.dirty = false
		return 0, nil, t.flush(ctx)
	}
	return 0, nil, nil
}

// intake takes an element; with wait it waits for one, or for a message.
func (t *task) intake(ctx context.Context, wait bool) (int, stream.Element, bool, error) {
	if t.reader != nil {
		el, err := t.poll(ctx, wait)
		return 0, el, el != nil, err
	}
	if e, ok := t.unheld(); ok {
		return e.input, e.el, true, nil
	}
	for {
		e, ok, err := t.receive(ctx, wait)
		if err != nil || !ok {
			return 0, nil, false, err
		}
		if t.blocked[e.input] {
			t.held = append(t.held, e)
			continue
		}
		return e.input, e.el, true, nil
	}
}

// receive takes from the inbox.
func (t *task) receive(ctx context.Context, wait bool) (e envelope, ok bool, err error) {
	select {
	case e = <-t.in.ch:
		return e, true, nil
	case <-ctx.Done():
		return e, false, context.Cause(ctx)
	default:
	}
	if !wait {
		return e, false, nil
	}
	begin := t.env.Clock.Now()
	defer func() { t.links[0].c.IdleNanos.Add(int64(t.env.Clock.Now().Sub(begin))) }()
	select {
	case e = <-t.in.ch:
		return e, true, nil
	case <-t.ctl.ready:
		return e, false, nil
	case <-ctx.Done():
		return e, false, context.Cause(ctx)
	}
}

// poll is step R1 as the task sees it. A source that is frozen or has ended only
// listens.
func (t *task) poll(ctx context.Context, wait bool) (stream.Element, error) {
	if t.frozen || t.finished {
		if !wait {
			return nil, context.Cause(ctx)
		}
		select {
		case <-t.ctl.ready:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if !wait {
		t.reader.Wake()
	}
	t.env.Listener.Did("R1", t.id, stream.NoCheckpoint)
	el, err := t.reader.Poll(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return el, err
}

// unheld returns the first held-back element whose input is free again.
func (t *task) unheld() (envelope, bool) {
	for i, e := range t.held {
		if !t.blocked[e.input] {
			t.held = append(t.held[:i], t.held[i+1:]...)
			return e, true
		}
	}
	return envelope{}, false
}

// flush sends what the exchanges of the chain have coalesced.
func (t *task) flush(ctx context.Context) error {
	for _, l := range t.links {
		for _, c := range l.children {
			if c.ex != nil {
				if err := c.ex.flush(ctx); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// broadcast is step B5: it sends el over every exchange of the chain.
func (t *task) broadcast(ctx context.Context, el stream.Element) error {
	for _, l := range t.links {
		for _, c := range l.children {
			if c.ex != nil {
				if err := c.ex.broadcast(ctx, el); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// slice lets the stores copy out some entries of a sealed epoch.
func (t *task) slice() error {
	t.copying = false
	for _, l := range t.links {
		if l.store == nil {
			continue
		}
		more, err := l.store.Slice()
		if err != nil {
			return fmt.Errorf("task %s: copy out: %w", t.id, err)
		}
		t.copying = t.copying || more
	}
	return nil
}

// watchBudget asks for a checkpoint when dirty state fills the memory budget.
func (t *task) watchBudget() {
	for _, l := range t.links {
		if l.store != nil && !t.asked && l.store.OverBudget() {
			t.asked = true
			t.runner.Trigger("state of " + string(l.node.UID) + " is over its memory budget")
		}
	}
}
