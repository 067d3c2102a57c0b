package checkpoint

import (
	"fmt"
	"slices"
	"time"

	"etl/internal/invariant"
	"etl/stream"
)

// Event is something that happened. Every event carries the time: the
// coordinator has no clock.
type Event interface{ event() }

// The events.
type (
	// Tick lets time pass.
	Tick struct{ At time.Time }
	// Trigger asks for a checkpoint now: a person did, or a store is over budget.
	Trigger struct {
		At  time.Time
		Why string
	}
	// Acked says that a task's snapshot is durable. More says that a component
	// holds rows that go out only with a later checkpoint.
	Acked struct {
		At   time.Time
		Task stream.TaskID
		ID   stream.CheckpointID
		More bool
	}
	// Declined says that a task has no snapshot, and lost nothing (I8).
	Declined struct {
		At     time.Time
		Task   stream.TaskID
		ID     stream.CheckpointID
		Reason Reason
		Err    error
	}
	// AppendDeclined says that the append of a checkpoint was not issued, so that
	// nothing is lost and the checkpoint can still be aborted (I8).
	AppendDeclined struct {
		At  time.Time
		ID  stream.CheckpointID
		Err error
	}
	// Published says that the append of the checkpoint returned.
	Published struct {
		At time.Time
		ID stream.CheckpointID
	}
	// Confirmed says that all commits up to a checkpoint are verified.
	Confirmed struct {
		At time.Time
		ID stream.CheckpointID
	}
	// SourceEnded says that a source task has read its bounded input to the end.
	SourceEnded struct {
		At   time.Time
		Task stream.TaskID
	}
	// StopRequested asks for a final checkpoint and the end of the job.
	StopRequested struct{ At time.Time }
)

func (Tick) event()           {}
func (Trigger) event()        {}
func (Acked) event()          {}
func (Declined) event()       {}
func (AppendDeclined) event() {}
func (Published) event()      {}
func (Confirmed) event()      {}
func (SourceEnded) event()    {}
func (StopRequested) event()  {}

// Effect is something to be done about an event.
type Effect interface{ effect() }

// The effects.
type (
	// Inject sends a barrier into every source task (B1).
	Inject struct{ Barrier stream.Barrier }
	// Publish builds the metadata of a checkpoint and appends it to the log (B8).
	// The answer is Published; a failed append ends the attempt.
	Publish struct {
		ID          stream.CheckpointID
		Kind        stream.BarrierKind
		TriggeredAt time.Time
	}
	// Abort says that a checkpoint can never be published.
	Abort struct {
		ID     stream.CheckpointID
		Kind   stream.BarrierKind
		Reason Reason
		Task   stream.TaskID // who declined or was missing first
		Err    error
		// Failures counts the consecutive ones, of Tolerable.
		Failures, Tolerable int
		TriggeredAt         time.Time
	}
	// Complete says that a checkpoint is published.
	Complete struct {
		ID          stream.CheckpointID
		Kind        stream.BarrierKind
		TriggeredAt time.Time
	}
	// Fail ends the attempt.
	Fail struct{ Err error }
	// Finish ends the job: its final checkpoint is published and confirmed.
	Finish struct{}
)

func (Inject) effect()   {}
func (Publish) effect()  {}
func (Abort) effect()    {}
func (Complete) effect() {}
func (Fail) effect()     {}
func (Finish) effect()   {}

// attemptPhase is where the attempt stands between running and ended.
type attemptPhase uint8

const (
	running  attemptPhase = iota
	ending                // a final checkpoint is wanted or under way
	settling              // the final checkpoint is published, its commits are not confirmed
	over                  // Fail or Finish was said: nothing more happens
)

// collecting is a checkpoint that has been triggered and has not ended.
type collecting struct {
	id          stream.CheckpointID
	kind        stream.BarrierKind
	triggeredAt time.Time
	missing     map[stream.TaskID]struct{}
	more        bool
	// appending is set once Publish was said: from then on the checkpoint can
	// neither be aborted nor time out (I4).
	appending bool
}

// Coordinator decides when checkpoints begin and how they end, for one attempt.
// It is a pure state machine: no I/O, no goroutine, no clock. Feed it every event
// in the order they happened, and do what it answers, in order.
type Coordinator struct {
	policy  Policy
	attempt stream.Attempt
	tasks   []stream.TaskID
	sources map[stream.TaskID]struct{} // those that have not ended

	phase     attemptPhase
	n         uint32
	pending   []*collecting // in id order
	wanted    bool          // an explicit trigger waits for its turn
	triggered time.Time     // when the last periodic checkpoint was triggered
	ended     time.Time     // when the last checkpoint ended
	failures  int
	first     error // the first cause of the present run of failures
	final     stream.CheckpointID
	again     bool // the final checkpoint must be repeated: rows are held back
	stopping  bool // the end was asked for, not reached
}

// NewCoordinator returns the coordinator of an attempt over the given tasks, of
// which sources are those that inject barriers. The first periodic checkpoint is
// due one interval after now.
func NewCoordinator(p Policy, a stream.Attempt, tasks, sources []stream.TaskID, now time.Time) *Coordinator {
	c := &Coordinator{policy: p, attempt: a, tasks: tasks, sources: map[stream.TaskID]struct{}{}, triggered: now, ended: now.Add(-p.MinPause)}
	for _, s := range sources {
		c.sources[s] = struct{}{}
	}
	return c
}

// Step takes one event and returns what to do about it: step B1 among others.
func (c *Coordinator) Step(ev Event) (out []Effect) {
	if c.phase == over {
		return nil
	}
	switch e := ev.(type) {
	case Tick:
		out = c.expire(e.At)
		return append(out, c.begin(e.At)...)
	case Trigger:
		c.wanted = true
		return c.begin(e.At)
	case Acked:
		return c.acked(e)
	case Declined:
		return c.declined(e)
	case AppendDeclined:
		if p := c.find(e.ID); p != nil {
			return c.abort(p, e.At, UploadFailed, stream.TaskID{}, e.Err)
		}
		return nil
	case Published:
		return c.published(e)
	case Confirmed:
		return c.confirmed(e)
	case SourceEnded:
		delete(c.sources, e.Task)
		if len(c.sources) == 0 && c.phase == running {
			c.phase = ending
		}
		return c.begin(e.At)
	case StopRequested:
		c.stopping = true
		if c.phase == running {
			c.phase = ending
		}
		return c.begin(e.At)
	}
	invariant.Check(false, "unknown event %T", ev)
	return nil
}

// begin triggers a checkpoint when one is due.
func (c *Coordinator) begin(now time.Time) []Effect {
	if !c.due(now) {
		return nil
	}
	c.n++
	p := &collecting{id: stream.NewCheckpointID(c.attempt, c.n), triggeredAt: now, missing: map[stream.TaskID]struct{}{}}
	for _, t := range c.tasks {
		p.missing[t] = struct{}{}
	}
	if c.phase == ending {
		p.kind, c.final = stream.Final, p.id
	}
	c.pending, c.triggered, c.wanted = append(c.pending, p), now, false
	return []Effect{Inject{stream.Barrier{ID: p.id, Kind: p.kind, TriggeredAt: now}}}
}

// due reports whether a checkpoint should begin now. A final one waits for those
// under way, and rests only after a failure; a wanted one does not wait for the
// interval.
func (c *Coordinator) due(now time.Time) bool {
	rested := !now.Before(c.ended.Add(c.policy.MinPause))
	switch {
	case c.phase == ending:
		return len(c.pending) == 0 && (c.failures == 0 || rested)
	case c.phase != running || c.policy.Mode == None || len(c.pending) >= c.policy.MaxConcurrent:
		return false
	}
	return rested && (c.wanted || !now.Before(c.triggered.Add(c.policy.Interval)))
}

func (c *Coordinator) find(id stream.CheckpointID) *collecting {
	for _, p := range c.pending {
		if p.id == id {
			return p
		}
	}
	return nil
}

func (c *Coordinator) remove(p *collecting, now time.Time) {
	c.pending = slices.DeleteFunc(c.pending, func(q *collecting) bool { return q == p })
	c.ended = now
}

// acked counts an acknowledgement; one for a checkpoint that has been aborted is
// the ledger's business only (I6).
func (c *Coordinator) acked(e Acked) []Effect {
	p := c.find(e.ID)
	if p == nil || p.appending {
		return nil
	}
	delete(p.missing, e.Task)
	p.more = p.more || e.More
	return c.append(e.At)
}

// append publishes the oldest checkpoint if all have acknowledged it. Later ones
// wait until its fate is known: the log has one order.
func (c *Coordinator) append(now time.Time) []Effect {
	if len(c.pending) == 0 {
		return nil
	}
	p := c.pending[0]
	if p.appending || len(p.missing) > 0 {
		return nil
	}
	if c.policy.Mode == None {
		c.remove(p, now)
		if c.failures, c.first = 0, nil; p.more {
			return c.begin(now)
		}
		c.phase = over
		return []Effect{Finish{}}
	}
	p.appending = true
	return []Effect{Publish{ID: p.id, Kind: p.kind, TriggeredAt: p.triggeredAt}}
}

func (c *Coordinator) published(e Published) []Effect {
	p := c.find(e.ID)
	invariant.Check(p != nil && p.appending, "I4: %s published without an append", e.ID)
	c.remove(p, e.At)
	c.failures, c.first = 0, nil
	out := []Effect{Complete{ID: p.id, Kind: p.kind, TriggeredAt: p.triggeredAt}}
	if p.kind == stream.Final {
		c.phase, c.again = settling, p.more
		return out
	}
	out = append(out, c.append(e.At)...)
	return append(out, c.begin(e.At)...)
}

func (c *Coordinator) confirmed(e Confirmed) []Effect {
	if c.phase != settling || e.ID < c.final {
		return nil
	}
	if c.again {
		c.phase = ending
		return c.begin(e.At)
	}
	c.phase = over
	return []Effect{Finish{}}
}

// expire aborts what took too long.
func (c *Coordinator) expire(now time.Time) (out []Effect) {
	for _, p := range slices.Clone(c.pending) {
		if p.appending || now.Before(p.triggeredAt.Add(c.policy.Timeout)) {
			continue
		}
		t := c.firstMissing(p)
		err := fmt.Errorf("%d of %d tasks had not acknowledged after %v, %s among them", len(p.missing), len(c.tasks), c.policy.Timeout, t)
		out = append(out, c.abort(p, now, TimedOut, t, err)...)
	}
	return out
}

// firstMissing names one of the missing tasks, always the same.
func (c *Coordinator) firstMissing(p *collecting) stream.TaskID {
	for _, t := range c.tasks {
		if _, ok := p.missing[t]; ok {
			return t
		}
	}
	return stream.TaskID{}
}

func (c *Coordinator) declined(e Declined) []Effect {
	p := c.find(e.ID)
	if p == nil || p.appending {
		return nil
	}
	return c.abort(p, e.At, e.Reason, e.Task, e.Err)
}

// abort gives a checkpoint up, and the attempt when there were too many.
func (c *Coordinator) abort(p *collecting, now time.Time, r Reason, t stream.TaskID, cause error) []Effect {
	if c.phase == over {
		return nil
	}
	c.remove(p, now)
	c.failures++
	if c.first == nil {
		c.first = fmt.Errorf("%s: %s at %s: %w", p.id, r, t, cause)
	}
	out := []Effect{Abort{ID: p.id, Kind: p.kind, Reason: r, Task: t, Err: cause,
		Failures: c.failures, Tolerable: c.policy.TolerableFailures, TriggeredAt: p.triggeredAt}}
	if c.failures <= c.policy.TolerableFailures {
		return append(out, c.append(now)...)
	}
	final := c.phase != running
	c.phase = over
	return append(out, Fail{c.tooMany(final)})
}

// tooMany is the error of an attempt whose checkpoints keep failing. At the end
// of a job there is no use in starting again: its sources stay where they are.
func (c *Coordinator) tooMany(final bool) error {
	class := stream.Restart
	if final {
		class = stream.Failed
	}
	return stream.Errorf(class, "checkpoint.too_many_failures", "checkpoint", "",
		"%d consecutive checkpoints failed, %d are tolerable; the first: %w", c.failures, c.policy.TolerableFailures, c.first)
}
