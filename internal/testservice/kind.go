package testservice

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"
)

// Kind is one kind of server. Its package, e.g. internal/pgtest, keeps one as a variable.
type Kind struct {
	Name  string        // as sentences call it: "PostgreSQL"
	Tier  string        // the name under which a missing one is reported
	Env   string        // the variable that names somebody else's
	Limit time.Duration // until it answers; generous: the machine may be busy with other tests
	// Installed is nil when the programs for a plain process are here.
	Installed func() error
	// Ready asks the server at an address one thing, over a connection of its own.
	Ready func(ctx context.Context, address string) error
}

// choose is [Choose] for this kind. own says that the test wants settings of its own.
func (k *Kind) choose(ctx context.Context, want Via, own bool) (Via, error) {
	via, err := Choose(ctx, want, Choices{Foreign: os.Getenv(k.Env), Process: k.Installed})
	if err == nil && via == ViaForeign && own {
		return "", fmt.Errorf("this test needs a server with settings of its own, not the one of %s", k.Env)
	}
	return via, err
}

// Run starts a server, or takes that of the environment unless the test wants settings of
// its own, and returns when it answers. launch starts one, ready or not, and says its
// address. The caller stops the server.
func (k *Kind) Run(ctx context.Context, want Via, own bool, launch func(context.Context, Via) (Service, string, error)) (*Server, error) {
	via, err := k.choose(ctx, want, own)
	if err != nil {
		return nil, err
	}
	s := &Server{kind: k, via: via, service: Foreign{}, address: os.Getenv(k.Env)}
	if via != ViaForeign {
		if s.service, s.address, err = launch(ctx, via); err != nil {
			return nil, err
		}
	}
	if err := s.AwaitReady(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// Start gives a test a server of its own, which it may kill. It ends with the test.
func Start[S Stoppable](t testing.TB, k *Kind, run func(context.Context) (S, error)) S {
	t.Helper()
	s, err := run(t.Context())
	if err != nil {
		k.unavailable(t, err)
	}
	t.Cleanup(func() {
		ShowLog(t, s)
		if err := s.Stop(); err != nil {
			t.Errorf("stop %s: %v", k.Name, err)
		}
	})
	return s
}

// unavailable skips only for want of a server; one that was started and broke is a failure.
func (k *Kind) unavailable(t testing.TB, err error) {
	t.Helper()
	if _, missing := k.choose(t.Context(), ViaAuto, false); missing != nil {
		Skip(t, k.Tier, "%v", missing)
	}
	t.Fatalf("start %s: %v", k.Name, err)
}
