package redistest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"etl/internal/testservice"
)

// Tier is the name under which a missing server is reported.
const Tier = "real-redis"

// Store is a [Server] for a test: what goes wrong fails the test.
type Store struct{ *Server }

// Start gives a test a server of its own, which it may kill. It ends with the test.
func Start(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Run(t.Context(), cfg)
	if err != nil {
		unavailable(t, err)
	}
	t.Cleanup(func() {
		testservice.ShowLog(t, s)
		if err := s.Stop(); err != nil {
			t.Errorf("stop Redis: %v", err)
		}
	})
	return &Store{s}
}

var shared testservice.Shared[*Server]

// Shared is a server that all tests of this program use; it starts when the first one
// asks. Tests must not kill it, and keep to keys of their own ([Store.Prefix]). It needs
// [Main] or [Runner] in TestMain, which stop it.
func Shared(t testing.TB) *Store {
	t.Helper()
	s, err := shared.Get(t, func(ctx context.Context) (*Server, error) { return Run(ctx, Config{}) })
	if err != nil {
		unavailable(t, err)
	}
	return &Store{s}
}

// Main is the body of a TestMain: it runs the tests and stops the shared server.
func Main(m *testing.M) { Runner(m).Run() }

// Runner is Main for those who wrap it further; it nests with kafkatest.Runner.
func Runner(m testservice.Runs) testservice.Runs { return shared.Runner(m) }

// unavailable skips only for want of a server; one that was started and broke is a failure.
func unavailable(t testing.TB, err error) {
	t.Helper()
	if _, missing := choose(t.Context(), Config{}); missing != nil {
		testservice.Skip(t, Tier, "%v", missing)
	}
	t.Fatalf("start Redis: %v", err)
}

func (s *Store) do(t testing.TB, what string, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*startLimit)
	defer cancel()
	err := f(ctx)
	if errors.Is(err, testservice.ErrForeign) {
		testservice.Skip(t, Tier, "%s: %v", what, err)
	}
	if err != nil {
		t.Fatalf("%s Redis: %v", what, err)
	}
}

// Kill sends SIGKILL and returns when the server is down.
func (s *Store) Kill(t testing.TB) { t.Helper(); s.do(t, "kill", s.Server.Kill) }

// Restart starts a killed server on its data and port and returns when it answers.
func (s *Store) Restart(t testing.TB) { t.Helper(); s.do(t, "restart", s.Server.Restart) }

// Client connects to the server; it is closed with the test.
func (s *Store) Client(t testing.TB) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() }) // a test may have killed the server
	return c
}

var prefixes atomic.Int64

// Prefix begins the keys of one test, for servers that tests share.
func (s *Store) Prefix() string {
	return fmt.Sprintf("test-%d-%d:", time.Now().UnixNano(), prefixes.Add(1))
}
