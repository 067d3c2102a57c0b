package pipeline

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"etl/checkpoint"
	"etl/source"
	"etl/stream"
)

// TestLanesThatAreNoMore: the parallelism was raised, the new subtask alone committed
// something, and it was lowered again. Going back to the checkpoint before is refused all
// the same: what the lane that is no more has committed would be written twice.
func TestLanesThatAreNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 1)
		s.par, s.out.partitions["in"] = 1, [][]string{{"a", "b", "c"}}
		s.runUntil(3)
		h, err := checkpoint.ReadHistory(context.Background(), s.store)
		if err != nil {
			t.Fatal(err)
		}
		before := h.Newest().ID

		s.par = 2
		s.out.partitions["in"][0] = append(s.out.partitions["in"][0], keyOf(1, 2))
		s.runUntil(4)

		s.par, s.restore.From = 1, before
		j, err := NewJob(s.endless(), s.options())
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, j.Stop) // virtual
		err = j.Run(context.Background())
		if stream.CodeOf(err) != "restore.sink_ahead" || !strings.Contains(err.Error(), "restore the newest checkpoint, or accept") {
			t.Errorf("going back to %s: %v", before, err)
		}
		s.check()
	})
}

// endless is the graph of the job with an input that may grow.
func (s *simulation) endless() *Graph {
	g := s.graph()
	in := g.Node("in").Source
	in.Bounded = false
	in.NewEnumerator = func() source.Enumerator { return &memEnumerator{o: s.out, topic: "in"} }
	return g
}

// runUntil runs the job until so many rows are committed, and stops it.
func (s *simulation) runUntil(rows int) {
	j, err := NewJob(s.endless(), s.options())
	if err != nil {
		s.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- j.Run(context.Background()) }()
	for tries := 0; s.out.count() < rows; tries++ {
		if tries > 1000 {
			s.t.Fatalf("%d rows are committed, %d were expected", s.out.count(), rows)
		}
		time.Sleep(10 * time.Millisecond) // virtual
	}
	j.Stop()
	if err := <-done; err != nil {
		s.t.Fatal(err)
	}
}

// count is the number of rows that readers see.
func (o *outside) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.committed)
}

// keyOf returns a key that belongs to a subtask.
func keyOf(subtask, parallelism int) string {
	for i := 0; ; i++ {
		key := fmt.Sprint("k", i)
		if stream.SubtaskOf(stream.KeyGroupOf(stream.Hash([]byte(key)), 16), parallelism, 16) == subtask {
			return key
		}
	}
}
