package pipeline

import (
	"testing"

	"etl/stream"
)

// TestInboxIsBounded: what waits for a task, behind a barrier or not, is a few
// elements of each input; the rest waits with those who send, and an input that is
// full leaves the others alone.
func TestInboxIsBounded(t *testing.T) {
	in := newInbox(2)
	fill := func(input int) (n int) {
		for in.offer(input, stream.Idle{}) {
			n++
		}
		return n
	}
	if n := fill(0); n != credits {
		t.Errorf("an input has %d elements on their way, want %d", n, credits)
	}
	if n := fill(1); n != credits {
		t.Errorf("the other input has %d, want %d", n, credits)
	}
	// Taken, but kept behind a barrier: the credit is not given back.
	<-in.ch
	if n := fill(0); n != 0 {
		t.Errorf("%d more were taken while one is kept", n)
	}
	in.done(0)
	if n := fill(0); n != 1 {
		t.Errorf("%d were taken after one was done with", n)
	}
}
