package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"etl/stream"
)

// fakeWorker stands for the program: what it does is up to the test.
type fakeWorker struct {
	mu     sync.Mutex
	starts []Command
	live   int
	// run is a life: it writes to out, and returns how it ends unless it is killed.
	run func(n int, out io.Writer, killed <-chan struct{}) Exit
}

type fakeProcess struct {
	w      *fakeWorker
	killed chan struct{}
	once   sync.Once
	exit   chan Exit
}

func (w *fakeWorker) Start(_ context.Context, c Command) (Process, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.starts = append(w.starts, c)
	w.live++
	p := &fakeProcess{w: w, killed: make(chan struct{}), exit: make(chan Exit, 1)}
	n := len(w.starts)
	go func() {
		e := w.run(n, c.Out, p.killed)
		w.mu.Lock()
		w.live--
		w.mu.Unlock()
		p.exit <- e
	}()
	return p, nil
}

func (p *fakeProcess) Wait() Exit { return <-p.exit }
func (p *fakeProcess) Kill()      { p.once.Do(func() { close(p.killed) }) }

// idle does nothing until it is killed.
func idle(_ int, _ io.Writer, killed <-chan struct{}) Exit {
	<-killed
	return Exit{Code: -1, Killed: true}
}

// fastClock sleeps a hundredth of the time.
type fastClock struct{ stream.SystemClock }

func (c fastClock) Sleep(ctx context.Context, d time.Duration) error {
	return c.SystemClock.Sleep(ctx, d/100)
}

// syncBuffer may be written to while it is read.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// Ctrl-C ends everything: the worker is killed, the folder is gone.
func TestInterrupted(t *testing.T) {
	dir := tempIsOurs(t)
	ctx, cancel := context.WithCancel(t.Context())
	w := &fakeWorker{run: func(n int, out io.Writer, killed <-chan struct{}) Exit {
		fmt.Fprintln(out, `{"msg":"running","restored":"0.0"}`)
		cancel()
		return idle(n, out, killed)
	}}
	out := &syncBuffer{}
	_, err := Run(ctx, Options{Out: out, Start: w})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if w.live != 0 || len(w.starts) != 1 {
		t.Errorf("%d workers of %d live", w.live, len(w.starts))
	}
	if !strings.Contains(out.String(), "cluster    in-process Kafka") || !strings.Contains(out.String(), "worker runs") {
		t.Errorf("output:\n%s", out)
	}
	nothingLeft(t, dir)
}

// witness is a Starter that keeps what was shown before each start.
type witness struct {
	Starter
	out   *syncBuffer
	shown []string
}

func (w *witness) Start(ctx context.Context, c Command) (Process, error) {
	w.shown = append(w.shown, w.out.String())
	return w.Starter.Start(ctx, c)
}

// What is shown comes as it happens: the plan before the first worker is started, that
// it runs while it runs, a kill before the next start. Nothing waits for the end.
func TestShownAsItHappens(t *testing.T) {
	out := &syncBuffer{}
	running := ""
	w := &witness{out: out, Starter: &fakeWorker{run: func(n int, log io.Writer, _ <-chan struct{}) Exit {
		if n == 2 {
			return Exit{}
		}
		fmt.Fprintln(log, `{"msg":"running","restored":"0.0"}`)
		running = out.String()
		return Exit{Code: -1, Killed: true}
	}}}
	if _, err := Run(t.Context(), Options{Out: out, Start: w, Kills: 1, Records: 300, Clock: fastClock{}}); err != nil {
		t.Fatal(err)
	}
	if len(w.shown) != 2 {
		t.Fatalf("%d starts", len(w.shown))
	}
	first, second := w.shown[0], w.shown[1]
	if !strings.HasPrefix(first, "  cluster    in-process Kafka") || !strings.Contains(first, "plan       300 lines") || !strings.HasSuffix(first, "\n") {
		t.Errorf("before the first start:\n%s", first)
	}
	if strings.Contains(first, "worker runs") || !strings.Contains(running, "worker runs") {
		t.Errorf("while it runs:\n%s", running)
	}
	if strings.Contains(running, "killed: ") || !strings.Contains(second, "killed: kill -9 at ") {
		t.Errorf("before the second start:\n%s", second)
	}
}

// A worker that fails ends the demo with its last words.
func TestWorkerFails(t *testing.T) {
	dir := tempIsOurs(t)
	w := &fakeWorker{run: func(_ int, out io.Writer, _ <-chan struct{}) Exit {
		fmt.Fprint(out, "one\ntwo: no space left")
		return Exit{Code: 3}
	}}
	_, err := Run(t.Context(), Options{Out: io.Discard, Start: w})
	if err == nil || !strings.Contains(err.Error(), "exit code 3") || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("error %v", err)
	}
	nothingLeft(t, dir)
}

// A worker that does not come to its point is killed from outside; and an output that
// is not complete is not OK.
func TestPointNotReached(t *testing.T) {
	w := &fakeWorker{run: func(n int, out io.Writer, killed <-chan struct{}) Exit {
		if n == 3 {
			return Exit{}
		}
		return idle(n, out, killed)
	}}
	out := &syncBuffer{}
	r, err := Run(t.Context(), Options{Out: out, Start: w, Kills: 2, Records: 300, Clock: fastClock{}})
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(r.Kills) != "[any moment any moment]" || r.OK || r.Missing == 0 || !strings.Contains(out.String(), "NOT OK") {
		t.Errorf("%+v\n%s", r, out)
	}
	for i, c := range w.starts {
		if fault := strings.Join(c.Env, " "); (i < 2) != strings.HasPrefix(fault, "ETL_FAULT=") || c.Args[2] != "run" {
			t.Errorf("start %d: %+v", i, c)
		}
	}
}

// The input is fixed by its seed, whatever its pace.
func TestTextIsFixedBySeed(t *testing.T) {
	a, b, c := newText(4), newText(4), newText(5)
	same, other := 0, 0
	for range 200 {
		x, n := a.line()
		y, _ := b.line()
		z, _ := c.line()
		if len(strings.Fields(x)) != n {
			t.Errorf("%q has not %d words", x, n)
		}
		if x == y {
			same++
		}
		if x == z {
			other++
		}
	}
	if same != 200 || other == 200 {
		t.Errorf("%d lines alike with one seed, %d with two", same, other)
	}
}

// There is input left as long as a kill is due, and all of it is written in the end.
func TestPace(t *testing.T) {
	g := &generator{total: 1000, kills: 4}
	for killed := range int64(4) {
		last := int64(0)
		for s := range 600 {
			n := g.due(killed, time.Duration(s)*100*time.Millisecond)
			if n < last || n >= g.total {
				t.Fatalf("%d kills, %d00 ms: %d lines after %d", killed, s, n, last)
			}
			last = n
		}
	}
	if n := g.due(4, time.Minute); n != 1000 {
		t.Errorf("%d lines in the end", n)
	}
	sum := int64(0)
	for p := range partitions {
		sum += share(1000, p)
	}
	if sum != 1000 || share(4, 0) != 2 || share(4, 1) != 1 {
		t.Errorf("shares of 1000 make %d", sum)
	}
}

func TestPlanIsFixedBySeed(t *testing.T) {
	plan := func(seed uint64) string {
		o := Options{Seed: seed}
		o.withDefaults()
		r := &run{o: o, rand: newText(seed).rand}
		return fmt.Sprint(r.plan(8))
	}
	if first := plan(1); plan(1) != first || plan(2) == first {
		t.Error("the seed does not fix the points")
	}
}
