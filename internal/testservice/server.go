package testservice

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// Server is a running server of some [Kind]. Its methods are safe from any goroutine, one
// at a time.
type Server struct {
	kind    *Kind
	via     Via
	service Service
	address string
}

// Address is where clients find the server, in the form that the kind's own have.
func (s *Server) Address() string { return s.address }

// Via says how the server runs.
func (s *Server) Via() Via { return s.via }

// Process is the server's process, or nil when it is not a child of this program.
func (s *Server) Process() *Process {
	p, _ := s.service.(*Process)
	return p
}

// Log is the newest part of the server's log.
func (s *Server) Log() string { return s.service.Log() }

// Kill sends SIGKILL to all of the server and returns when it is down. The signal of a
// plain process arrives within microseconds of the call, a container's takes
// milliseconds: aim kills at a [ViaProcess].
func (s *Server) Kill(ctx context.Context) error { return s.service.Kill(ctx) }

// Restart starts a killed server on its data and ports and returns when it answers.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.service.Restart(ctx); err != nil {
		return fmt.Errorf("restart %s: %w", s.kind.Name, err)
	}
	return s.AwaitReady(ctx)
}

// Pause freezes the server: connections stay open and nothing answers.
func (s *Server) Pause(ctx context.Context) error { return s.service.Pause(ctx) }

// Unpause thaws it.
func (s *Server) Unpause(ctx context.Context) error { return s.service.Unpause(ctx) }

// Ready asks the server one thing, over a connection of its own.
func (s *Server) Ready(ctx context.Context) error { return s.kind.Ready(ctx, s.address) }

// AwaitReady returns when the server answers.
func (s *Server) AwaitReady(ctx context.Context) error {
	return Await(ctx, s.service, s.kind.Limit, s.Ready)
}

// Stop ends the server and removes its data.
func (s *Server) Stop() error { return s.service.Stop() }

// Tested is the same for a test: what goes wrong fails it.
func (s *Server) Tested() Tested { return Tested{s} }

// Tested is what a test does to a [Server]: what goes wrong fails the test.
type Tested struct{ server *Server }

// Do does something to the server that takes no longer than two starts of one.
func (d Tested) Do(t testing.TB, what string, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*d.server.kind.Limit)
	defer cancel()
	err := f(ctx)
	if errors.Is(err, ErrForeign) {
		Skip(t, d.server.kind.Tier, "%s: %v", what, err)
	}
	if err != nil {
		t.Fatalf("%s %s: %v", what, d.server.kind.Name, err)
	}
}

// Kill sends SIGKILL and returns when the server is down.
func (d Tested) Kill(t testing.TB) { t.Helper(); d.Do(t, "kill", d.server.Kill) }

// Restart starts a killed server on its data and ports and returns when it answers.
func (d Tested) Restart(t testing.TB) { t.Helper(); d.Do(t, "restart", d.server.Restart) }

// Pause freezes the server: connections stay open and nothing answers.
func (d Tested) Pause(t testing.TB) { t.Helper(); d.Do(t, "pause", d.server.Pause) }

// Unpause thaws it.
func (d Tested) Unpause(t testing.TB) { t.Helper(); d.Do(t, "unpause", d.server.Unpause) }

// AwaitReady returns when the server answers.
func (d Tested) AwaitReady(t testing.TB) { t.Helper(); d.Do(t, "await", d.server.AwaitReady) }
