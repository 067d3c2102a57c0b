package pgtest

import (
	"context"
	"testing"

	"etl/internal/testservice"
)

var shared testservice.Shared[*Server]

// Shared is a server that all tests of this program use; it starts when the
// first one asks. Tests must not kill it, and take a database of their own
// ([Database.NewDatabase]).
// It needs [Main] or [Runner] in TestMain, which stop it.
func Shared(t testing.TB) *Database {
	t.Helper()
	return database(shared.Start(t, kind, func(ctx context.Context) (*Server, error) { return Run(ctx, Config{}) }))
}

// Main is the body of a TestMain: it runs the tests and stops the shared server.
func Main(m *testing.M) { Runner(m).Run() }

// Runner is Main for those who wrap it further; it nests with kafkatest.Runner.
func Runner(m testservice.Runs) testservice.Runs { return shared.Runner(m) }
