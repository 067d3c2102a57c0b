package pipeline

import (
	"sync"

	"etl/stream"
)

// control carries what the runner and the persister tell a task. It never makes
// them wait: messages queue up, and the task looks between elements.
type control struct {
	mu    sync.Mutex
	queue []message
	// ready has a value when there are messages; wake interrupts a Poll.
	ready chan struct{}
	wake  func()
}

// message is one of the types below.
type message interface{ message() }

type (
	// inject tells a source task to emit a barrier.
	inject struct{ barrier stream.Barrier }
	// aborted tells that a checkpoint can never be published.
	aborted struct{ id stream.CheckpointID }
	// assign gives splits to a source's reader.
	assign struct{ splits []stream.Split }
	// persisted tells that the slow part of a snapshot has ended.
	persisted struct{ id stream.CheckpointID }
)

func (inject) message()    {}
func (aborted) message()   {}
func (assign) message()    {}
func (persisted) message() {}

func newControl() *control { return &control{ready: make(chan struct{}, 1)} }

func (c *control) tell(m message) {
	c.mu.Lock()
	c.queue = append(c.queue, m)
	c.mu.Unlock()
	select {
	case c.ready <- struct{}{}:
	default:
	}
	if c.wake != nil {
		c.wake()
	}
}

// take returns the messages that wait, in order.
func (c *control) take() []message {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queue
	c.queue = nil
	return q
}
