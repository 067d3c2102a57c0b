package sinktest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"etl/internal/fault"
	"etl/sink"
	"etl/stream"
)

// rig is the world of one test: an outside, the jobs in front of it, and what went
// wrong so far.
type rig struct {
	t testing.TB
	s *Suite
	h *Harness
	f sink.Features

	active atomic.Pointer[node] // whose call is under way: fault points are its
	busy   sync.WaitGroup       // processes that are being closed

	mu    sync.Mutex
	jobs  []*job
	procs []*process
	story []string
	err   error
}

func newRig(t testing.TB, s *Suite) *rig {
	r := &rig{t: t, s: s, h: s.New(t)}
	system := stream.SystemWorld(nil)
	w := &r.h.World
	if w.Clock == nil {
		w.Clock = system.Clock
	}
	if w.FS == nil {
		w.FS = system.FS
	}
	if w.Dial == nil {
		w.Dial = system.Dial
	}
	if w.Entropy == nil {
		w.Entropy = system.Entropy
	}
	if w.Log == nil {
		w.Log = system.Log
	}
	if r.h.Job == "" {
		r.h.Job = "job"
	}
	r.f = r.h.Connect(Process{World: *w, Parallelism: 1, Policy: s.Policy, n: newNode(func() {})}).Features()
	fault.Watch(r.point)
	return r
}

// point is told every fault point that any goroutine passes.
func (r *rig) point(string) {
	if n := r.active.Load(); n != nil {
		_ = n.pass(step)
	}
}

// close ends what the test has left.
func (r *rig) close() {
	fault.Watch(nil)
	for _, p := range r.procs {
		p.abandon()
	}
	r.busy.Wait()
}

// note keeps what was done, for the failure's message.
func (r *rig) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.story = append(r.story, fmt.Sprintf(format, args...))
}

// failf ends the test, from any goroutine that try has started.
func (r *rig) failf(format string, args ...any) {
	r.mu.Lock()
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
	r.mu.Unlock()
	runtime.Goexit()
}

// must ends the test unless err is nil.
func (r *rig) must(err error) {
	if err != nil {
		r.failf("%w", err)
	}
}

// failure returns what went wrong, and what was done before.
func (r *rig) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		return nil
	}
	return fmt.Errorf("%w\nhistory: %s", r.err, strings.Join(r.story, ", "))
}

// spawn runs f on a goroutine of its own and reports whether it came to its end.
func (r *rig) spawn(f func()) (whole bool) {
	done := make(chan bool, 1)
	go func() {
		end := false
		defer func() { done <- end }()
		f()
		end = true
	}()
	return <-done
}

// try runs f and reports whether it came to its end: the death of a process ends what
// it was about to do. A failure ends the caller, too.
func (r *rig) try(f func()) (whole bool) {
	whole = r.spawn(f)
	if r.failed() {
		runtime.Goexit()
	}
	return whole
}

func (r *rig) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err != nil
}

// errHang is a call that did not return.
var errHang = errors.New("did not return")

// bounded runs f under ctx, and returns an error when it does not come back in time,
// or panics.
func (r *rig) bounded(ctx context.Context, what string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, r.s.Patience)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("%s: panic: %v\n%s", what, p, stack())
			}
		}()
		done <- f(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	grace, cancelGrace := context.WithTimeout(context.WithoutCancel(ctx), r.s.Patience)
	defer cancelGrace()
	select {
	case err := <-done:
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("%s %w within %v: %w", what, errHang, r.s.Patience, err)
		}
		return err
	case <-grace.Done():
		return fmt.Errorf("%s %w, although its context has ended", what, errHang)
	}
}

func stack() []byte {
	b := make([]byte, 16<<10)
	return b[:runtime.Stack(b, false)]
}

// eventually repeats look until it returns "", which what it returns explains.
func (r *rig) eventually(look func() string) {
	begin, why := r.now(), ""
	for wait := time.Millisecond; r.now().Sub(begin) < r.s.Patience; wait = min(2*wait, 500*time.Millisecond) {
		if why = look(); why == "" {
			return
		}
		r.must(r.h.World.Clock.Sleep(context.Background(), wait))
	}
	r.failf("%s", why)
}

// pause gives others the time to come to where they wait.
func (r *rig) pause() { r.must(r.h.World.Clock.Sleep(context.Background(), 50*time.Millisecond)) }

func (r *rig) now() time.Time { return r.h.World.Clock.Now() }
