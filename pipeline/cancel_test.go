package pipeline

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestCancel cancels a job at random times, and lets it finish at last. A cancelled
// job leaves no transaction open, not even one whose checkpoint is published: that
// one is committed, for nobody knows when the job starts again (I17).
func TestCancel(t *testing.T) {
	first, n := uint64(1), uint64(*seeds)
	if *seed != 0 {
		first, n = *seed, 1
	}
	for s := first; s < first+n; s++ {
		t.Run(fmt.Sprint("seed=", s), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newSimulation(t, s).cancels() })
		})
	}
}

func (s *simulation) cancels() {
	s.slowStorage()
	for range 1 + s.r.IntN(5) {
		s.cancelled(time.Duration(s.r.IntN(600)) * time.Millisecond) // virtual
		for name, tx := range s.out.txns {
			if tx.state == "open" {
				s.t.Fatalf("seed %d: %s is left open by a cancelled job", s.seed, name)
			}
		}
	}
	if err := s.start(false); err != nil {
		s.t.Fatalf("seed %d: %v", s.seed, err)
	}
	s.check()
}

// cancelled runs the job for some time.
func (s *simulation) cancelled(after time.Duration) {
	j, err := NewJob(s.graph(), s.options())
	if err != nil {
		s.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- j.Run(context.Background()) }()
	time.Sleep(after)
	j.Cancel()
	if err := <-done; err != nil {
		s.t.Fatalf("seed %d: a cancelled job ended with %v", s.seed, err)
	}
}
