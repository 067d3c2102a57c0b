package kafkatest

import (
	"context"
	"testing"

	"etl/internal/testservice"
)

var shared testservice.Shared[*Server]

// Shared is a broker that all tests of this program use; it starts when the
// first one asks. Tests must not kill it, and take names of their own ([Broker.Topic]).
// It needs [Main] or [Runner] in TestMain, which stop it.
func Shared(t testing.TB) *Broker {
	t.Helper()
	s, err := shared.Get(t, func(ctx context.Context) (*Server, error) { return Run(ctx, Config{}) })
	if err != nil {
		unavailable(t, err)
	}
	return &Broker{Server: s}
}

// Main is the body of a TestMain: it runs the tests and stops the shared broker.
func Main(m *testing.M) { Runner(m).Run() }

// Runner is Main for those who wrap it further: goleak.VerifyTestMain(kafkatest.Runner(m)).
func Runner(m testservice.Runs) testservice.Runs { return shared.Runner(m) }
