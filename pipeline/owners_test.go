package pipeline

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"etl/internal/fault"
	"etl/stream"
)

// TestTwoOwners starts a second process while the first one works, again and
// again: whoever appended its attempt last is the owner. The older one must end,
// fenced, and must neither publish anything nor change what its successor does.
func TestTwoOwners(t *testing.T) {
	first, n := uint64(1), uint64(*seeds)
	if *seed != 0 {
		first, n = *seed, 1
	}
	for s := first; s < first+n; s++ {
		t.Run(fmt.Sprint("seed=", s), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newSimulation(t, s).owners() })
		})
	}
}

// owners runs a succession of overlapping jobs; the last one is left alone.
func (s *simulation) owners() {
	fault.Watch(nil)
	s.slowStorage()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	stuck := time.AfterFunc(2*time.Minute, func() { cancel(errStuck) })
	defer stuck.Stop()
	results := make(chan error, 8)
	count := 2 + s.r.IntN(4)
	for i := range count {
		j, err := NewJob(s.graph(), s.takeOver())
		if err != nil {
			s.t.Fatal(err)
		}
		go func() { results <- j.Run(ctx) }()
		if i < count-1 {
			time.Sleep(time.Duration(s.r.IntN(300)) * time.Millisecond) // virtual
		}
	}
	finished := 0
	for range count {
		switch err := <-results; {
		case err == nil:
			finished++
		case errors.Is(err, errStuck):
			s.t.Fatalf("seed %d: %v", s.seed, err)
		case stream.ClassOf(err) != stream.Fenced:
			s.t.Errorf("seed %d: an older owner ended with %v instead of being fenced", s.seed, err)
		}
	}
	if finished == 0 {
		s.t.Fatalf("seed %d: nobody finished the job", s.seed)
	}
	s.check()
}

func (s *simulation) takeOver() Options {
	o := s.options()
	o.TakeOver = true
	return o
}
