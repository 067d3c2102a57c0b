package testservice

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
)

// Runs is the one method of testing.M that a TestMain needs.
type Runs interface{ Run() int }

// Stoppable is what [Shared] must be able to do with a server.
type Stoppable interface {
	comparable
	Stop() error
	Log() string
}

// Shared is the one server of its kind in a test program: started when the
// first test asks, stopped after the last. Packages keep one as a variable.
type Shared[S Stoppable] struct {
	mu      sync.Mutex
	stopper bool // somebody has promised, in TestMain, to stop the server
	server  S
	err     error
}

// Get returns the server. Without a stopper the test fails: the server's folder would stay behind.
func (s *Shared[S]) Get(t testing.TB, run func(context.Context) (S, error)) (S, error) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var none S
	if !s.stopper {
		t.Fatal("a shared server needs a TestMain: func TestMain(m *testing.M) { kafkatest.Main(m) }, or pgtest.Main")
	}
	if s.server == none && s.err == nil {
		s.server, s.err = run(context.Background())
	}
	if s.err == nil {
		server := s.server
		t.Cleanup(func() { ShowLog(t, server) })
	}
	return s.server, s.err
}

// Start is Get for the usual server of a kind: without one the test is skipped.
func (s *Shared[S]) Start(t testing.TB, k *Kind, run func(context.Context) (S, error)) S {
	t.Helper()
	server, err := s.Get(t, run)
	if err != nil {
		k.unavailable(t, err)
	}
	return server
}

// ShowLog adds a server's log to a test that failed.
func ShowLog(t testing.TB, server interface{ Log() string }) {
	if t.Failed() {
		t.Logf("the server's log:\n%s", server.Log())
	}
}

// Runner runs the tests of m, then stops the server.
func (s *Shared[S]) Runner(m Runs) Runs {
	s.stopper = true
	return runner[S]{shared: s, tests: m}
}

type runner[S Stoppable] struct {
	shared *Shared[S]
	tests  Runs
}

// Run implements [Runs].
func (r runner[S]) Run() int {
	code := r.tests.Run()
	r.shared.mu.Lock()
	defer r.shared.mu.Unlock()
	var none S
	if r.shared.server != none {
		if err := r.shared.server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the shared server:", err)
		}
	}
	return code
}
