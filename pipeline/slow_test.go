package pipeline

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"etl/checkpoint"
	"etl/sink"
	"etl/stream"
)

// TestSlowSinkAmongSeveral: of the sinks that take one stream, one is slow and then
// stands still. While it is slow, checkpoints go on, and the job has its pace: what
// waits for it is bounded. While it stands still they time out, and each failure names
// it, not the tasks that wait for it. Afterwards every row is in every sink once.
func TestSlowSinkAmongSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 7)
		s.par = 2
		late := &lateness{resumes: make(chan struct{}), stands: 20 * time.Second}
		s.build = func() *Graph { return s.fanOut(late) }
		o := s.options()
		o.Policy.TolerableFailures = 1000
		var mu sync.Mutex
		published, whileSlow, blamed, blamedOther := 0, 0, 0, []string(nil)
		o.Listener = &stream.Listener{Checkpoint: func(e stream.CheckpointEvent) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case e.Phase == "published":
				published++
				if !late.stood() {
					whileSlow++
				}
			case e.Phase == "aborted" && e.Reason == string(checkpoint.TimedOut):
				if strings.HasPrefix(e.Err.Error(), "late/") && strings.Contains(e.Err.Error(), "writing rows") {
					blamed++
				} else {
					blamedOther = append(blamedOther, e.Err.Error())
				}
			}
		}}
		j, err := NewJob(s.graph(), o)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		if whileSlow < 3 || blamed < 10 || len(blamedOther) > 0 {
			t.Errorf("%d checkpoints, %d while the sink was slow; it was blamed %d times, others for %q", published, whileSlow, blamed, blamedOther)
		}
		var want []row
		for _, log := range s.out.partitions["in"] {
			for _, key := range log {
				want = append(want, row{key, key})
			}
		}
		for _, uid := range []stream.UID{"late", "quick", "other"} {
			s.equal(string(uid), s.out.sinks[uid], want)
		}
	})
}

// fanOut is a source with three sinks: one in its own task, one of another
// parallelism, and one that is late.
func (s *simulation) fanOut(l *lateness) *Graph {
	b := New("sim").Parallelism(s.par).MaxParallelism(16)
	in := b.Source("in", memSource{s.out}, &stream.Schema{})
	plain := func() sink.Writer { return &memWriter{o: s.out} }
	in.Sink("quick", memSink{s.out, plain})
	in.Sink("other", memSink{s.out, plain}).Parallelism(1)
	in.KeyBy("key", func() Keyer { return byKey{} }).Sink("late", memSink{s.out, func() sink.Writer { return &lateWriter{memWriter{o: s.out}, l} }})
	g, err := b.Graph()
	if err != nil {
		s.t.Fatal(err)
	}
	return g
}

// lateness makes the writers of a sink slow, and then stand still for a while, once.
type lateness struct {
	mu      sync.Mutex
	writes  int
	stands  time.Duration
	began   bool
	resumes chan struct{}
}

func (l *lateness) stood() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.began
}

func (l *lateness) wait(ctx context.Context, clock stream.Clock) error {
	l.mu.Lock()
	l.writes++
	first := l.writes == 100
	l.began = l.began || first
	began := l.began
	l.mu.Unlock()
	if first {
		time.AfterFunc(l.stands, func() { close(l.resumes) })
	}
	if began {
		select {
		case <-l.resumes:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		return nil
	}
	return clock.Sleep(ctx, 20*time.Millisecond)
}

type lateWriter struct {
	memWriter
	late *lateness
}

func (w *lateWriter) Write(ctx context.Context, b *stream.Batch, out sink.Output) error {
	if err := w.late.wait(ctx, w.env.Clock); err != nil {
		b.Release()
		return err
	}
	return w.memWriter.Write(ctx, b, out)
}
