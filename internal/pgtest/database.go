package pgtest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"etl/internal/testservice"
)

// Tier is the name under which a missing server is reported.
const Tier = "real-postgres"

// Database is a [Server] for a test: what goes wrong fails the test.
type Database struct {
	*Server
}

// Start gives a test a server of its own, which it may kill. It ends with the test.
func Start(t testing.TB, cfg Config) *Database {
	t.Helper()
	s, err := Run(t.Context(), cfg)
	if err != nil {
		unavailable(t, err)
	}
	t.Cleanup(func() {
		testservice.ShowLog(t, s)
		if err := s.Stop(); err != nil {
			t.Errorf("stop PostgreSQL: %v", err)
		}
	})
	return &Database{Server: s}
}

// unavailable skips only for want of a server; one that was started and broke is a failure.
func unavailable(t testing.TB, err error) {
	t.Helper()
	if _, missing := choose(t.Context(), Config{}); missing != nil {
		testservice.Skip(t, Tier, "%v", missing)
	}
	t.Fatalf("start PostgreSQL: %v", err)
}

func (d *Database) do(t testing.TB, what string, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*startLimit)
	defer cancel()
	err := f(ctx)
	if errors.Is(err, testservice.ErrForeign) {
		testservice.Skip(t, Tier, "%s: %v", what, err)
	}
	if err != nil {
		t.Fatalf("%s PostgreSQL: %v", what, err)
	}
}

// Kill sends SIGKILL and returns when the server is down.
func (d *Database) Kill(t testing.TB) { t.Helper(); d.do(t, "kill", d.Server.Kill) }

// Restart starts a killed server on its data and port and returns when it answers.
func (d *Database) Restart(t testing.TB) { t.Helper(); d.do(t, "restart", d.Server.Restart) }

// Pause freezes the server: connections stay open and nothing answers.
func (d *Database) Pause(t testing.TB) { t.Helper(); d.do(t, "pause", d.Server.Pause) }

// Unpause thaws it.
func (d *Database) Unpause(t testing.TB) { t.Helper(); d.do(t, "unpause", d.Server.Unpause) }

// AwaitReady returns when the server answers a query.
func (d *Database) AwaitReady(t testing.TB) { t.Helper(); d.do(t, "await", d.Server.AwaitReady) }

// Conn connects to the "postgres" database; the connection is closed with the test.
func (d *Database) Conn(t testing.TB) *pgx.Conn {
	t.Helper()
	return connect(t, d.DSN())
}

func connect(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatalf("connect to PostgreSQL: %v", err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) }) // a test may have killed the server
	return c
}

var databases atomic.Int64

// NewDatabase makes an empty database, for servers that tests share, and returns its DSN.
func (d *Database) NewDatabase(t testing.TB) string {
	t.Helper()
	dsn, err := d.CreateDatabase(t.Context(), fmt.Sprintf("test_%d_%d", time.Now().UnixMilli(), databases.Add(1)))
	if err != nil {
		t.Fatalf("create a database: %v", err)
	}
	return dsn
}
