package pgtest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"etl/internal/testservice"
)

// Database is a [Server] for a test: what goes wrong fails the test.
type Database struct {
	*Server
	testservice.Tested
}

func database(s *Server) *Database { return &Database{s, s.Tested()} }

// Start gives a test a server of its own, which it may kill. It ends with the test.
func Start(t testing.TB, cfg Config) *Database {
	t.Helper()
	return database(testservice.Start(t, kind, func(ctx context.Context) (*Server, error) { return Run(ctx, cfg) }))
}

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
