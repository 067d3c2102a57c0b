package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"etl/checkpoint"
	"etl/sink"
	"etl/stream"
)

// frankCommitter also tells what is open; blind, not of which attempt it is.
type frankCommitter struct {
	*memCommitter
	blind bool
}

func (c *frankCommitter) Inspect(context.Context) (out []sink.InDoubt, err error) {
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	for name, tx := range c.o.txns {
		if tx.state != "open" {
			continue
		}
		d := sink.InDoubt{ID: name, Attempt: tx.attempt, Subtask: tx.lane.Subtask, State: tx.state}
		if c.blind {
			d.Attempt = 0
		}
		out = append(out, d)
	}
	return out, nil
}

func (c *frankCommitter) IDOf(k *checkpoint.Committable) (string, error) {
	return string(k.Payload), nil
}

func (c *frankCommitter) End(context.Context, string, bool) error {
	return errors.New("only looked at")
}

func (c *frankCommitter) Find(context.Context, string) ([]sink.InDoubt, error) { return nil, nil }

// TestDoubtsWhileItRuns: who looks at a job that runs is told which attempt runs it, and
// to leave what that has open, or has to finish for an earlier one.
func TestDoubtsWhileItRuns(t *testing.T) {
	for _, blind := range []bool{false, true} {
		for _, deferred := range []bool{false, true} {
			t.Run(fmt.Sprintf("blind=%v/deferred=%v", blind, deferred), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { doubtsWhileItRuns(t, blind, deferred) })
			})
		}
	}
}

func doubtsWhileItRuns(t *testing.T, blind, deferred bool) {
	s := newSimulation(t, 3)
	s.deferred, s.slow = deferred, 70*time.Millisecond // more than an interval
	graph := func() *Graph {
		s.build = nil
		g := s.graph()
		g.Node("out").Sink.NewCommitter = func() sink.Committer { return &frankCommitter{&memCommitter{o: s.out, slow: s.slow}, blind} }
		return g
	}
	s.dieAt("checkpoint.published") // so that the one that runs is the second
	o := s.options()
	o.Holder = checkpoint.Holder{Host: "here", PID: 11}
	look := make(chan struct{}, 1)
	o.Listener = &stream.Listener{Checkpoint: func(e stream.CheckpointEvent) {
		if e.Phase == "published" {
			select {
			case look <- struct{}{}:
			default:
			}
		}
	}}
	j, err := NewJob(graph(), o)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- j.Run(context.Background()) }()
	<-look
	o = s.options()
	o.Holder = checkpoint.Holder{Host: "there", PID: 12}
	other, err := NewJob(graph(), o)
	if err != nil {
		t.Fatal(err)
	}
	d, err := other.Doubts(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if d.Holder == nil || d.Holder.Attempt != 2 || len(d.Items) == 0 {
		t.Errorf("%d in doubt, held by %+v; want some, and attempt 2", len(d.Items), d.Holder)
	}
	for _, x := range d.Items {
		if x.Advice != AdviseLeave || !strings.Contains(x.Why, "attempt 2, which runs as pid 11 on here") {
			t.Errorf("%s of attempt %d: %s, for %s", x.ID, x.Attempt, x.Advice, x.Why)
		}
	}
	j.Cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
