package checkpoint

import (
	"etl/internal/invariant"
	"etl/stream"
)

// Signal is what a task tells its aligner.
type Signal interface{ signal() }

// The signals.
type (
	// BarrierOn says that a barrier has come on an input.
	BarrierOn struct {
		Input   int
		Barrier stream.Barrier
	}
	// Cancelled says that a checkpoint was aborted.
	Cancelled struct{ ID stream.CheckpointID }
)

func (BarrierOn) signal() {}
func (Cancelled) signal() {}

// Action is what a task is to do.
type Action interface{ action() }

// The actions.
type (
	// Block takes no more elements from an input until Unblock.
	Block struct{ Input int }
	// Snapshot seals the task's state for a barrier and forwards it (B4, B5).
	Snapshot struct{ Barrier stream.Barrier }
	// Unblock takes elements from all inputs again, first those held back.
	Unblock struct{}
)

func (Block) action()    {}
func (Snapshot) action() {}
func (Unblock) action()  {}

// Aligner decides what a task with several inputs does about barriers (B3). It is
// a pure state machine. With aligned barriers it blocks each input behind barrier
// n until n has come on all, so that snapshot n holds the effect of exactly the
// elements before n (I2). Without alignment, for at-least-once jobs, it seals at
// the last barrier and blocks nothing.
type Aligner struct {
	inputs  int
	aligned bool

	current stream.Barrier        // the one being aligned; zero for none
	arrived []bool                // by input
	count   int                   // of arrived
	done    stream.CheckpointID   // sealed or given up: barriers up to here are stale
	last    []stream.CheckpointID // newest barrier by input (I1)
}

// NewAligner returns the aligner of a task with the given number of inputs.
func NewAligner(inputs int, aligned bool) *Aligner {
	return &Aligner{inputs: inputs, aligned: aligned, arrived: make([]bool, inputs), last: make([]stream.CheckpointID, inputs)}
}

// Aligning returns the barrier that is being aligned, or the zero one.
func (a *Aligner) Aligning() stream.Barrier { return a.current }

// Step is step B3: it takes one signal and returns what to do.
func (a *Aligner) Step(sig Signal) []Action {
	switch s := sig.(type) {
	case BarrierOn:
		return a.barrier(s)
	case Cancelled:
		a.done = max(a.done, s.ID)
		if a.current.ID != stream.NoCheckpoint && a.current.ID <= s.ID {
			return a.reset()
		}
		return nil
	}
	invariant.Check(false, "unknown signal %T", sig)
	return nil
}

func (a *Aligner) barrier(s BarrierOn) (out []Action) {
	id := s.Barrier.ID
	invariant.Check(id > a.last[s.Input], "I1: barrier %s after %s on input %d", id, a.last[s.Input], s.Input)
	a.last[s.Input] = id
	if id <= a.done || id < a.current.ID {
		return nil // aborted meanwhile, or overtaken by a newer one
	}
	if id > a.current.ID {
		// A newer barrier ends the alignment of an older one: its coordinator gave
		// the older one up, or this edge would still be blocked.
		if a.current.ID != stream.NoCheckpoint {
			a.done = a.current.ID
			out = a.reset()
		}
		a.current = s.Barrier
	}
	a.arrived[s.Input] = true
	a.count++
	if a.count < a.inputs {
		if a.aligned {
			out = append(out, Block{s.Input})
		}
		return out
	}
	b := a.current
	a.done = b.ID
	out = append(out, Snapshot{b})
	return append(out, a.reset()...)
}

// reset forgets the current barrier and unblocks.
func (a *Aligner) reset() []Action {
	a.current, a.count = stream.Barrier{}, 0
	clear(a.arrived)
	return []Action{Unblock{}}
}
