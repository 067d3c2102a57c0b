package pgconn

import (
	"context"
	"strings"
	"testing"
	"time"

	"etl/internal/pgtest"
	"etl/stream"
)

// A standby, or a server that was made read only, is passed by: of several hosts the one
// that can be written to is taken.
func TestReadOnlyServerIsPassedBy(t *testing.T) {
	d := pgtest.Shared(t)
	dsn := d.NewDatabase(t)
	p := pool(t, dsn)
	name := strings.TrimPrefix(mustURL(t, dsn).Path, "/")
	run(t, p, "ALTER DATABASE "+Ident(name)+" SET default_transaction_read_only = on")
	err := pool(t, dsn).With(t.Context(), func(*Conn) error { return nil })
	want(t, "connect", err, "retry "+CodeReadOnly)
}

// A server that became a standby under a connection, or behind a pooler, is asked again over
// another one.
func TestServerBecomesAStandby(t *testing.T) {
	pgtest.Shared(t) // skips when there is no server to be had
	d := pgtest.Start(t, pgtest.Config{})
	dsn := d.NewDatabase(t)
	run(t, pool(t, dsn), "CREATE TABLE t (i int)", "COPY (SELECT '') TO PROGRAM 'cat > standby.signal'")
	d.Kill(t)
	d.Restart(t)
	p := pool(t, dsn+"&target_session_attrs=read-only") // a new connection would be refused otherwise
	for what, f := range map[string]func(context.Context, *Conn) error{
		"begin":           func(ctx context.Context, c *Conn) error { return Explain(c.Begin(ctx, time.Second), "write rows", "t") },
		"commit prepared": func(ctx context.Context, c *Conn) error { return c.CommitPrepared(ctx, "g", "") },
		"statement": func(ctx context.Context, c *Conn) error {
			_, err := c.Exec(ctx, "INSERT INTO t VALUES (1)")
			return Explain(err, "insert", "t")
		},
	} {
		want(t, what, p.With(t.Context(), func(c *Conn) error { return f(t.Context(), c) }), "retry "+CodeReadOnly)
		if n := p.p.Stat().IdleConns(); n != 0 {
			t.Errorf("%s: the connection is kept", what)
		}
	}
}

// The sessions of an earlier attempt can be ended by name, and only these.
func TestTerminate(t *testing.T) {
	dsn := pgtest.Shared(t).NewDatabase(t)
	cfg := config(t, dsn)
	l := stream.Lineage{9}
	open := func(a stream.Attempt) *Pool {
		p, err := Open(t.Context(), cfg, 1, Application(l, a, "job", "out"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		return p
	}
	do(t, open(11), func(ctx context.Context, same *Conn) error {
		if err := same.Begin(ctx, time.Second); err != nil {
			return err
		}
		do(t, open(1), func(ctx context.Context, old *Conn) error {
			if err := old.Begin(ctx, time.Second); err != nil {
				return err
			}
			do(t, pool(t, dsn), func(ctx context.Context, c *Conn) error {
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				for n := 0; n == 0; { // the answer is here before the session is seen to wait for more
					var err error
					if n, err = c.Terminate(ctx, []string{Application(l, 1, "job", "out"), Application(l, 2, "job", "out")}); err != nil {
						return err
					}
					if n > 1 {
						t.Errorf("%d sessions ended", n)
					}
				}
				return nil
			})
			if _, err := old.Simple(ctx, "SELECT 1"); err == nil {
				t.Error("it goes on")
			}
			return nil
		})
		_, err := same.Simple(ctx, "SELECT 1")
		return err
	})
}

// A session whose COMMIT waits for a synchronous standby is not ended: the wait would break
// off, and show rows that a failover loses.
func TestTerminateLeavesWhoWaitsForAStandby(t *testing.T) {
	pgtest.Shared(t) // skips when there is no server to be had
	d := pgtest.Start(t, pgtest.Config{})
	dsn := d.NewDatabase(t)
	setup := pool(t, dsn)
	run(t, setup, "CREATE TABLE t (i int)", "ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
	old, err := Open(t.Context(), config(t, dsn), 1, "old")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(old.Close)
	done, enough := make(chan error, 1), make(chan struct{})
	go func() { // until one of them waits: the server takes its time to learn of the standby
		done <- old.With(context.Background(), func(c *Conn) error {
			for {
				if _, err := c.Simple(context.Background(), "INSERT INTO t VALUES (1)"); err != nil {
					return err
				}
				select {
				case <-enough:
					return nil
				default:
				}
			}
		})
	}()
	waits := func() (n int) {
		do(t, setup, func(ctx context.Context, c *Conn) error {
			return c.QueryRow(ctx, "SELECT count(*)::int FROM pg_stat_activity WHERE application_name = 'old' AND wait_event = 'SyncRep'", nil, &n)
		})
		return n
	}
	for waits() == 0 {
		select {
		case err := <-done:
			t.Fatal(err)
		default:
		}
	}
	close(enough)
	do(t, setup, func(ctx context.Context, c *Conn) error {
		n, err := c.Terminate(ctx, []string{"old"})
		if n != 0 {
			t.Errorf("%d sessions ended", n)
		}
		return err
	})
	run(t, setup, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
	if err := <-done; err != nil {
		t.Errorf("the commit: %v", err)
	}
}
