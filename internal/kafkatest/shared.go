package kafkatest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
)

// shared is the one broker of this test program. hooked says that somebody will stop it.
var shared struct {
	mu     sync.Mutex
	hooked bool
	server *Server
	err    error
}

// Shared is a broker that all tests of this program use; it starts when the
// first one asks. Tests must not kill it, and take names of their own ([Broker.Topic]).
// It needs [Main] or [Runner] in TestMain, which stop it.
func Shared(t testing.TB) *Broker {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.hooked {
		t.Fatal("kafkatest.Shared needs: func TestMain(m *testing.M) { kafkatest.Main(m) }")
	}
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = Run(context.Background(), Config{})
	}
	if shared.err != nil {
		unavailable(t, shared.err)
	}
	t.Cleanup(func() { showLog(t, shared.server) })
	return &Broker{Server: shared.server}
}

// Main is the body of a TestMain: it runs the tests and stops the shared broker.
func Main(m *testing.M) { Runner(m).Run() }

// Runner is Main for those who wrap it further: goleak.VerifyTestMain(kafkatest.Runner(m)).
func Runner(m interface{ Run() int }) interface{ Run() int } {
	shared.hooked = true
	return runner{m}
}

type runner struct {
	tests interface{ Run() int }
}

// Run implements the one method of testing.M that TestMain needs.
func (r runner) Run() int {
	code := r.tests.Run()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server != nil {
		if err := shared.server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the shared broker:", err)
		}
	}
	return code
}
