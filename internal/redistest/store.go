package redistest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"etl/internal/testservice"
)

// Store is a [Server] for a test: what goes wrong fails the test.
type Store struct {
	*Server
	testservice.Tested
}

func store(s *Server) *Store { return &Store{s, s.Tested()} }

// Start gives a test a server of its own, which it may kill. It ends with the test.
func Start(t testing.TB, cfg Config) *Store {
	t.Helper()
	return store(testservice.Start(t, kind, func(ctx context.Context) (*Server, error) { return Run(ctx, cfg) }))
}

var shared testservice.Shared[*Server]

// Shared is a server that all tests of this program use; it starts when the first one
// asks. Tests must not kill it, and keep to keys of their own ([Store.Prefix]). It needs
// [Main] or [Runner] in TestMain, which stop it.
func Shared(t testing.TB) *Store {
	t.Helper()
	return store(shared.Start(t, kind, func(ctx context.Context) (*Server, error) { return Run(ctx, Config{}) }))
}

// Main is the body of a TestMain: it runs the tests and stops the shared server.
func Main(m *testing.M) { Runner(m).Run() }

// Runner is Main for those who wrap it further; it nests with kafkatest.Runner.
func Runner(m testservice.Runs) testservice.Runs { return shared.Runner(m) }

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
