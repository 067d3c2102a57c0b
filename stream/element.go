package stream

import "time"

// Element is what travels on an edge: *Batch, Barrier, Watermark, Idle or
// EndOfInput. The set is closed.
type Element interface{ element() }

// BarrierKind says what a barrier is for; tasks treat all alike except that
// sources stop reading at a Final one.
type BarrierKind uint8

const (
	// Periodic is an ordinary checkpoint.
	Periodic BarrierKind = iota
	// Final is the last checkpoint of a job that ends: at the end of bounded
	// input, or at stop. Sources read nothing after it (I17).
	Final
)

// String returns the kind's name in messages and history.
func (k BarrierKind) String() string {
	if k == Final {
		return "final"
	}
	return "periodic"
}

// Barrier separates what belongs to checkpoint ID from what comes after it.
type Barrier struct {
	ID   CheckpointID
	Kind BarrierKind
	// TriggeredAt is when the checkpoint began, to measure how long barriers travel.
	TriggeredAt time.Time
}

// Watermark promises that no record with an event time at or before Time (ms
// since 1970) will follow on this edge.
type Watermark struct{ Time int64 }

// Idle says that this edge takes no part in the watermark until its next batch or
// watermark.
type Idle struct{}

// EndOfInput is the last element of an edge of a bounded job but for barriers:
// a finished source still answers those until the final checkpoint.
type EndOfInput struct{}

func (*Batch) element()     {}
func (Barrier) element()    {}
func (Watermark) element()  {}
func (Idle) element()       {}
func (EndOfInput) element() {}
