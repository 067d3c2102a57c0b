package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"etl/checkpoint"
	"etl/internal/fault"
	"etl/sink"
	"etl/stream"
)

// stubborn cannot end anything: it fails at once, or when nobody waits any longer.
type stubborn struct {
	*memCommitter
	hangs bool
}

func (c *stubborn) Fence(ctx context.Context, _ []stream.Attempt, _ []checkpoint.Committable) error {
	if c.hangs {
		<-ctx.Done()
	}
	return errors.New("the outside is away")
}

// TestCancelWithASinkAway: of a cancelled job's sinks one is away. The others have
// nothing open afterwards, and the log names the one that has.
func TestCancelWithASinkAway(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { cancelWithASinkAway(t, seed) })
		})
	}
}

func cancelWithASinkAway(t *testing.T, seed uint64) {
	s := newSimulation(t, seed)
	g := s.graph()
	out := g.Node("out")
	out.Sink.NewCommitter = func() sink.Committer { return &stubborn{&memCommitter{o: s.out}, seed%2 == 0} }
	for _, uid := range []stream.UID{"second", "third"} {
		n, k := *out, *out.Sink
		k.NewCommitter = func() sink.Committer { return &memCommitter{o: s.out} }
		n.UID, n.Sink = uid, &k
		g.Nodes = append(g.Nodes, &n)
	}
	o, said := s.options(), &lockedBuffer{}
	o.World.Log = slog.New(slog.NewTextHandler(said, nil))
	j, err := NewJob(g, o)
	if err != nil {
		t.Fatal(err)
	}
	fault.Watch(func(name string) {
		if name == "log.append.checkpoint.before" && j.Status().Phase == "running" { // all is prepared
			j.Cancel()
			runtime.Goexit() // and nothing of it is published
		}
	})
	defer fault.Watch(nil)
	if err := j.Run(context.Background()); err != nil {
		t.Errorf("a cancelled job ended with %v", err)
	}
	states := map[string]int{}
	for _, tx := range s.out.txns {
		states[string(tx.lane.UID)+" "+tx.state]++
	}
	if len(states) != 3 || states["out open"] == 0 || states["second aborted"] == 0 || states["third aborted"] == 0 {
		t.Errorf("the transactions are %v: want those of out to be open and all others aborted", states)
	}
	if log := said.String(); strings.Count(log, "could not be ended") != 1 || !strings.Contains(log, "sink=out") {
		t.Errorf("the log does not name out, and nothing else: %s", log)
	}
}

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestCheckpointOfAnEndedJob: who asks a job for a checkpoint gets an error when the job
// ends before, or has ended.
func TestCheckpointOfAnEndedJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 1)
		s.slow = time.Hour // no checkpoint is confirmed
		o, running := s.options(), make(chan struct{})
		o.Listener = &stream.Listener{Job: func(e stream.JobEvent) {
			if e.Phase == "running" {
				close(running)
			}
		}}
		j, err := NewJob(s.graph(), o)
		if err != nil {
			t.Fatal(err)
		}
		done, asked := make(chan error, 1), make(chan error, 1)
		ctx, cancel := context.WithTimeout(context.Background(), 24*time.Hour) // virtual
		defer cancel()
		go func() { done <- j.Run(ctx) }()
		<-running
		time.Sleep(time.Second) // virtual; the first rows are published, and wait for their commit
		ask := func() {
			_, err := j.Checkpoint(ctx)
			asked <- err
		}
		go ask()
		time.Sleep(time.Second) // virtual; it waits
		j.Cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		go ask()
		for range 2 {
			if err := <-asked; stream.CodeOf(err) != "job.not_running" {
				t.Errorf("who asked for a checkpoint got %v", err)
			}
		}
	})
}
