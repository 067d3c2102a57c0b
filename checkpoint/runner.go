package checkpoint

import (
	"context"
	"fmt"
	"maps"
	"time"

	"etl/internal/broken"
	"etl/internal/fault"
	"etl/stream"
)

// Tasks is what the runner tells the tasks of the attempt. Calls return at once.
type Tasks interface {
	// Inject hands a barrier to every source task.
	Inject(b stream.Barrier)
	// Aborted says that a checkpoint can never be published.
	Aborted(id stream.CheckpointID)
	// Completed says that a checkpoint is published.
	Completed(id stream.CheckpointID)
	// Culprit says which subtask of a component keeps the missing tasks, in the order
	// of the graph, from acknowledging, and what it is doing; false when nobody can be
	// seen at work.
	Culprit(missing []stream.TaskID) (who stream.TaskID, doing string, ok bool)
}

// Ledger is what the runner needs of sink.Ledger, which stands on a higher floor.
type Ledger interface {
	Staged(lane stream.TaskID, cs []Committable, replaces []stream.CheckpointID)
	List(id stream.CheckpointID) (unresolved []Committable, confirmed map[stream.TaskID]stream.CheckpointID)
	Published(p Permit, retired map[stream.TaskID]stream.CheckpointID)
	Settled(id stream.CheckpointID) bool
	Laggard(id stream.CheckpointID) (stream.TaskID, bool)
}

// Ack is the acknowledgement of one task: all of it is durable (B7).
type Ack struct {
	Task     stream.TaskID
	ID       stream.CheckpointID
	States   []TaskState
	Prepared []Prepared
	// More says that rows are held that only a later checkpoint writes.
	More bool
	Statistics
}

// Prepared is what one sink subtask of a task has prepared.
type Prepared struct {
	Lane         stream.TaskID
	Committables []Committable
	Replaces     []stream.CheckpointID
}

// RunnerOptions is what a runner works with.
type RunnerOptions struct {
	Policy   Policy
	Attempt  *Attempt
	Storage  Storage
	World    stream.World
	Listener *stream.Listener
	// Tasks are all tasks that acknowledge, Sources those that inject barriers.
	Tasks, Sources []stream.TaskID
	Control        Tasks
	Ledger         Ledger
	// Template is the part of the metadata that is the same for all checkpoints.
	Template Metadata
	// Restored is the checkpoint the attempt began from: checkpoint 0 for a fresh
	// job.
	Restored *Metadata
	// Report is called off the loop once a checkpoint is confirmed; nil for none.
	Report func(ctx context.Context, p Permit, m *Metadata)
	// Retain deletes what the newest confirmed checkpoint has subsumed; nil for
	// nothing. It runs between appends, never beside one.
	Retain func(ctx context.Context) error
}

// Runner is the shell around the coordinator: one goroutine that turns calls into
// events and effects into calls, and one, the scribe, that does what the log and
// the storage need, one thing after another.
type Runner struct {
	o       RunnerOptions
	events  chan func() Event // made on the loop, so that they see its state
	results chan func() Event // of the scribe's few appends: never full, so it never waits for the loop
	moved   chan struct{}     // has a value when the ledger has moved; the loop itself tells, so telling never waits
	jobs    chan func(context.Context)
	co      *Coordinator

	// The fields below belong to the loop.
	acks      map[stream.CheckpointID]map[stream.TaskID]Ack
	splits    map[string]stream.Split // by "uid topic partition", at the last publication
	published []*publication          // not confirmed, in id order
	previous  stream.CheckpointID     // the newest published
	aborted   map[stream.CheckpointID]bool
	local     []Event // raised by the loop itself
	done      chan struct{}
	err       error
	over      bool
}

// publication is a checkpoint between its append and its confirmation.
type publication struct {
	meta   *Metadata
	permit Permit
}

// NewRunner returns a runner; Run makes it work.
func NewRunner(o RunnerOptions) *Runner {
	r := &Runner{o: o, events: make(chan func() Event, 64), results: make(chan func() Event, 4), moved: make(chan struct{}, 1), jobs: make(chan func(context.Context), 16), done: make(chan struct{}),
		acks: map[stream.CheckpointID]map[stream.TaskID]Ack{}, splits: map[string]stream.Split{},
		aborted: map[stream.CheckpointID]bool{}}
	r.co = NewCoordinator(o.Policy, o.Attempt.Number(), o.Tasks, o.Sources, o.World.Clock.Now())
	if o.Restored != nil {
		r.remember(o.Restored)
		r.previous = o.Restored.ID
	}
	return r
}

// post hands an event to the loop; after the end of Run it is dropped.
func (r *Runner) post(f func() Event) {
	select {
	case r.events <- f:
	case <-r.done:
	}
}

func (r *Runner) now() time.Time { return r.o.World.Clock.Now() }

// Acknowledge hands in a task's acknowledgement. Any goroutine; per task in id
// order (I6).
func (r *Runner) Acknowledge(a Ack) { r.post(func() Event { return r.acked(a) }) }

// Decline hands in a task's refusal. What its sinks have prepared counts all the
// same (I7); the snapshots in a do not.
func (r *Runner) Decline(a Ack, why Reason, err error) {
	r.post(func() Event {
		r.stage(a)
		return Declined{At: r.now(), Task: a.Task, ID: a.ID, Reason: why, Err: err}
	})
}

// SourceEnded says that a source task has read everything.
func (r *Runner) SourceEnded(t stream.TaskID) {
	r.post(func() Event { return SourceEnded{At: r.now(), Task: t} })
}

// Trigger asks for a checkpoint now.
func (r *Runner) Trigger(why string) {
	r.post(func() Event { return Trigger{At: r.now(), Why: why} })
}

// Stop asks for the final checkpoint and the end of the job.
func (r *Runner) Stop() { r.post(func() Event { return StopRequested{At: r.now()} }) }

// Resolved says that the ledger has resolved something. It returns at once: with many
// lanes the ledger says so more often than events has room for, and also to the loop,
// while it publishes.
func (r *Runner) Resolved() {
	select {
	case r.moved <- struct{}{}:
	default: // the loop is going to look
	}
}

// Run works until the job is finished (nil), the attempt has to end (the error),
// or ctx ends (its cause).
func (r *Runner) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	scribe := make(chan struct{})
	go func() {
		defer close(scribe)
		r.scribe(ctx)
	}()
	defer func() {
		close(r.done)
		cancel(r.err)
		<-scribe
	}()
	r.loop(ctx)
	return r.err
}

// scribe does what the log and the storage need, one thing after another.
func (r *Runner) scribe(ctx context.Context) {
	for {
		select {
		case job := <-r.jobs:
			job(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (r *Runner) loop(ctx context.Context) {
	tick := r.o.World.Clock.Ticker(tickEvery(r.o.Policy))
	defer tick.Stop()
	for !r.over {
		select {
		case f := <-r.events:
			r.step(ctx, f())
		case f := <-r.results:
			r.step(ctx, f())
		case <-r.moved:
			r.step(ctx, nil)
		case <-tick.C():
			r.step(ctx, Tick{At: r.now()})
		case <-ctx.Done():
			r.end(context.Cause(ctx))
		}
	}
}

// tickEvery is how exactly a policy's times are kept.
func tickEvery(p Policy) time.Duration {
	return min(max(p.Interval/20, time.Millisecond), 50*time.Millisecond)
}

func (r *Runner) end(err error) {
	if !r.over {
		r.over, r.err = true, err
	}
}

// step feeds the coordinator an event, and those the loop raises on the way.
func (r *Runner) step(ctx context.Context, ev Event) {
	for {
		if ev != nil {
			for _, e := range r.co.Step(ev) {
				r.do(ctx, e)
			}
		}
		r.confirm()
		if len(r.local) == 0 || r.over {
			return
		}
		ev, r.local = r.local[0], r.local[1:]
	}
}

// do does what the coordinator answered.
func (r *Runner) do(ctx context.Context, e Effect) {
	switch e := e.(type) {
	case Inject:
		r.o.Listener.Did("B1", stream.TaskID{}, e.Barrier.ID)
		r.tell(stream.CheckpointEvent{ID: e.Barrier.ID, Kind: e.Barrier.Kind, Phase: "triggered"})
		r.o.Control.Inject(e.Barrier)
	case Publish:
		r.publish(ctx, e)
	case Abort:
		r.abort(e)
	case Complete: // the publication told everybody already
	case Fail:
		r.end(e.Err)
	case Finish:
		r.finish(ctx)
	}
}

// acked is step B7: it records an acknowledgement: what sinks prepared always counts, the
// snapshots only while their checkpoint is wanted (I6).
func (r *Runner) acked(a Ack) Event {
	r.o.Listener.Did("B7", a.Task, a.ID)
	r.stage(a)
	if r.acks[a.ID] == nil {
		r.acks[a.ID] = map[stream.TaskID]Ack{}
	}
	r.acks[a.ID][a.Task] = a
	return Acked{At: r.now(), Task: a.Task, ID: a.ID, More: a.More}
}

// stage hands to the ledger what a task's sinks have prepared.
func (r *Runner) stage(a Ack) {
	for _, p := range a.Prepared {
		r.o.Ledger.Staged(p.Lane, p.Committables, p.Replaces)
	}
}

func (r *Runner) abort(e Abort) {
	if e.Reason == TimedOut {
		if who, doing, ok := r.o.Control.Culprit(r.missing(e.ID)); ok {
			e.Task, e.Err = who, fmt.Errorf("%w: %s is %s", e.Err, who, doing)
		}
	}
	r.aborted[e.ID] = true
	delete(r.acks, e.ID)
	r.tell(stream.CheckpointEvent{ID: e.ID, Kind: e.Kind, Phase: "aborted", Duration: r.now().Sub(e.TriggeredAt), Reason: string(e.Reason),
		Err: fmt.Errorf("%s: %w (%d of %d tolerable)", e.Task, e.Err, e.Failures, e.Tolerable)})
	r.o.Control.Aborted(e.ID)
}

// missing are the tasks that have not acknowledged.
func (r *Runner) missing(id stream.CheckpointID) (out []stream.TaskID) {
	for _, t := range r.o.Tasks {
		if _, ok := r.acks[id][t]; !ok {
			out = append(out, t)
		}
	}
	return out
}

// publish is step B8: it builds the metadata and has it appended.
func (r *Runner) publish(ctx context.Context, e Publish) {
	m, confirmed := r.build(e)
	if first := m.Earliest(); !first.IsZero() && first.Sub(r.now()) < r.o.Policy.Drain {
		r.end(stream.Errorf(stream.Restart, "checkpoint.deadline_too_near", "publish", m.ID.String(),
			"a prepared transaction ends at %s, less than the %v an outage must be given away (I9)", first.Format(time.RFC3339), r.o.Policy.Drain))
		return
	}
	if err := fault.Err("checkpoint.append.declined"); err != nil {
		r.local = append(r.local, AppendDeclined{At: r.now(), ID: m.ID, Err: err})
		return
	}
	if broken.Is(broken.CommitBeforePublish) {
		r.o.Ledger.Published(mint(m, r.o.Attempt.Number()), confirmed)
	}
	r.job(ctx, func(ctx context.Context) {
		r.o.Listener.Did("B8", stream.TaskID{}, m.ID)
		p, err := r.o.Attempt.Publish(ctx, m)
		r.results <- func() Event {
			if err != nil {
				r.end(err)
				return nil
			}
			return r.appended(p, m, confirmed)
		}
	})
}

// job queues work for the scribe.
func (r *Runner) job(ctx context.Context, f func(context.Context)) {
	select {
	case r.jobs <- f:
	case <-ctx.Done():
	}
}

// appended is step B9, the moment a checkpoint exists: tasks may drop what it took over,
// and the ledger may commit what it lists (B9, B10).
func (r *Runner) appended(p Permit, m *Metadata, confirmed map[stream.TaskID]stream.CheckpointID) Event {
	r.o.Listener.Did("B9", stream.TaskID{}, m.ID)
	r.remember(m)
	r.previous = m.ID
	maps.DeleteFunc(r.acks, func(id stream.CheckpointID, _ map[stream.TaskID]Ack) bool { return id <= m.ID })
	maps.DeleteFunc(r.aborted, func(id stream.CheckpointID, _ bool) bool { return id < m.ID })
	r.published = append(r.published, &publication{meta: m, permit: p})
	published := event(m, "published", r.now())
	published.Splits = m.Splits()
	r.tell(published)
	r.o.Control.Completed(m.ID)
	fault.Point("checkpoint.published") // nothing of it is committed: the lanes begin with the next line
	r.o.Ledger.Published(p, confirmed)
	return Published{At: r.now(), ID: m.ID}
}
