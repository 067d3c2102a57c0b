package pipeline

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"etl/checkpoint"
	"etl/stream"
)

// TestTrace runs a small job of one subtask, and holds the order in which its
// steps first happen against testdata/trace: the journeys of ARCHITECTURE.md, as
// they are. A second start then shows a recovery with something to commit.
func TestTrace(t *testing.T) {
	datadriven.RunTest(t, "testdata/trace", func(t *testing.T, d *datadriven.TestData) string {
		var out string
		synctest.Test(t, func(t *testing.T) { out = traceRun(t, d.Cmd) })
		return out
	})
}

// trace records steps.
type trace struct {
	mu    sync.Mutex
	steps []string
	seen  map[string]bool
}

// step keeps the first time a step happens at a task for a checkpoint.
func (tr *trace) step(step string, task stream.TaskID, id stream.CheckpointID) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	s := step + " " + task.String()
	if id != stream.NoCheckpoint {
		s += " " + id.String()
	}
	if !tr.seen[s] {
		tr.seen[s] = true
		tr.steps = append(tr.steps, s)
	}
}

// traceRun runs the job from its first start ("fresh"), or once more after a
// first run died between publication and commit ("restart").
func traceRun(t *testing.T, what string) string {
	s := newSimulation(t, 4)
	s.par = 1
	s.out.partitions["in"] = [][]string{{"a", "b", "a"}}
	if what == "restart" {
		s.dieAt("checkpoint.published")
	}
	tr := &trace{seen: map[string]bool{}}
	o := s.options()
	o.Policy = checkpoint.Policy{Interval: time.Hour, Timeout: time.Hour}
	o.Listener = &stream.Listener{Step: tr.step}
	j, err := NewJob(s.graph(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.check()
	return strings.Join(tr.steps, "\n") + "\n"
}
