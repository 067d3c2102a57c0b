package pgtest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"etl/internal/pgtest"
	"etl/internal/testservice"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// The fact that two-phase commit to PostgreSQL stands on.
func TestPreparedTransactionSurvivesKill(t *testing.T) {
	d := pgtest.Start(t, pgtest.Config{Settings: map[string]string{"lock_timeout": "5s"}})
	before := d.Conn(t)
	exec(t, before, "CREATE TABLE t (i int)", "BEGIN", "INSERT INTO t VALUES (1)", "PREPARE TRANSACTION 'in-doubt'")
	d.Kill(t)
	if err := d.Ready(t.Context()); err == nil {
		t.Fatal("a killed server answers")
	}
	d.Restart(t)
	after := d.Conn(t)
	if n := number(t, after, "SELECT count(*) FROM pg_prepared_xacts"); n != 1 {
		t.Fatalf("%d prepared transactions after the kill, want 1", n)
	}
	if n := number(t, after, "SELECT count(*) FROM t"); n != 0 {
		t.Fatalf("%d rows before the commit, want 0", n)
	}
	exec(t, after, "COMMIT PREPARED 'in-doubt'")
	if n := number(t, after, "SELECT count(*) FROM t"); n != 1 {
		t.Fatalf("%d rows after the commit, want 1", n)
	}
	if n := number(t, after, "SELECT setting::int FROM pg_settings WHERE name = 'max_prepared_transactions'"); n != 64 {
		t.Errorf("max_prepared_transactions = %d, want 64", n)
	}
}

func TestPauseIsAHang(t *testing.T) {
	d := pgtest.Start(t, pgtest.Config{})
	d.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := d.Ready(ctx); err == nil || ctx.Err() == nil {
		t.Errorf("a frozen server: %v, want a time-out", err)
	}
	d.Unpause(t)
	d.AwaitReady(t)
}

func TestSharedIsOneAndDatabasesAreMany(t *testing.T) {
	a, b := pgtest.Shared(t), pgtest.Shared(t)
	if a.DSN() != b.DSN() {
		t.Errorf("two shared servers: %s, %s", a.DSN(), b.DSN())
	}
	x, y := a.NewDatabase(t), b.NewDatabase(t)
	if x == y {
		t.Fatalf("one database twice: %s", x)
	}
	for _, dsn := range []string{x, y} {
		c, err := pgx.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		exec(t, c, "CREATE TABLE t (i int)")
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A database is made while somebody is in the one that servers copy unless told otherwise,
// as their own vacuum may be.
func TestDatabaseIsMadeBesideOthers(t *testing.T) {
	d := pgtest.Shared(t)
	c, err := pgx.Connect(t.Context(), strings.Replace(d.DSN(), "/postgres?", "/template1?", 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) }) // nothing was written
	d.NewDatabase(t)
}

func TestForeignServerIsLeftAlone(t *testing.T) {
	s := pgtest.Shared(t)
	t.Setenv("ETL_TEST_POSTGRES", s.DSN())
	t.Setenv("ETL_TEST_VIA", "")
	f, err := pgtest.Run(t.Context(), pgtest.Config{})
	if err != nil || f.Via() != testservice.ViaForeign {
		t.Fatalf("got %v, %v; want the server of the environment", f, err)
	}
	if err := f.Stop(); err != nil {
		t.Error(err)
	}
	if err := s.Ready(t.Context()); err != nil {
		t.Errorf("the foreign server after Stop: %v", err)
	}
}

func exec(t *testing.T, c *pgx.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := c.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func number(t *testing.T, c *pgx.Conn, query string) (n int) {
	t.Helper()
	if err := c.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}
