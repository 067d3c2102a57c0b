package pipeline

import (
	"context"

	"etl/stream"
)

// credits is how many elements an input may have on their way to a task: in its
// inbox, or held back behind a barrier. It bounds the memory of a slow consumer
// and makes its senders wait.
const credits = 4

// envelope is an element with the input it came over.
type envelope struct {
	input int
	el    stream.Element
}

// inbox is the one queue of a task. Senders pay with a credit of their input,
// which the task gives back when it has dealt with the element, so that the
// channel never blocks.
type inbox struct {
	ch     chan envelope
	tokens []chan struct{}
}

func newInbox(inputs int) *inbox {
	in := &inbox{ch: make(chan envelope, inputs*credits), tokens: make([]chan struct{}, inputs)}
	for i := range in.tokens {
		in.tokens[i] = make(chan struct{}, credits)
		for range credits {
			in.tokens[i] <- struct{}{}
		}
	}
	return in
}

// offer hands el over if the input has a credit.
func (in *inbox) offer(input int, el stream.Element) bool {
	select {
	case <-in.tokens[input]:
		in.ch <- envelope{input, el}
		return true
	default:
		return false
	}
}

// send waits for a credit and hands el over; a batch is released when ctx ends
// first.
func (in *inbox) send(ctx context.Context, input int, el stream.Element) error {
	select {
	case <-in.tokens[input]:
		in.ch <- envelope{input, el}
		return nil
	case <-ctx.Done():
		if b, ok := el.(*stream.Batch); ok {
			b.Release()
		}
		return context.Cause(ctx)
	}
}

// fill is the share of the credits in use of the input that has the fewest left: at 1
// a sender has to wait. Any goroutine may ask.
func (in *inbox) fill() float64 {
	left := credits
	for _, t := range in.tokens {
		left = min(left, len(t))
	}
	return 1 - float64(left)/credits
}

// done gives the credit of one element back.
func (in *inbox) done(input int) { in.tokens[input] <- struct{}{} }

// drain releases what nobody will take any more.
func (in *inbox) drain() {
	for {
		select {
		case e := <-in.ch:
			if b, ok := e.el.(*stream.Batch); ok {
				b.Release()
			}
		default:
			return
		}
	}
}
