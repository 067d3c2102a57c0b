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
	return broker(shared.Start(t, kind, func(ctx context.Context) (*Server, error) { return Run(ctx, Config{}) }))
}

// SharedAs is a broker with settings of its own that all tests of this program use. which
// keeps it; its Runner in TestMain stops it.
func SharedAs(t testing.TB, which *testservice.Shared[*Server], cfg Config) *Broker {
	t.Helper()
	s, err := which.Get(t, func(ctx context.Context) (*Server, error) { return Run(ctx, cfg) })
	if err != nil {
		// Where no broker can be had at all, the shared one is skipped in the one place for that.
		Shared(t)
		testservice.Skip(t, Tier, "%v", err)
	}
	return broker(s)
}

// Main is the body of a TestMain: it runs the tests and stops the shared broker.
func Main(m *testing.M) { Runner(m).Run() }

// Runner is Main for those who wrap it further: goleak.VerifyTestMain(kafkatest.Runner(m)).
func Runner(m testservice.Runs) testservice.Runs { return shared.Runner(m) }
