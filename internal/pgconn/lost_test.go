package pgconn

import (
	"context"
	"testing"
	"time"

	"etl/internal/pgtest"
	"etl/internal/testservice"
	"etl/stream"
)

// A server that is killed, and one behind a network that swallows the answer: the
// statement's fate is open, and the error says so by being no answer.
func TestLostAnswers(t *testing.T) {
	d := pgtest.Start(t, pgtest.Config{})
	port, err := testservice.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := testservice.StartProxy(testservice.Loopback(port), d.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	u := mustURL(t, d.DSN())
	u.Host = proxy.Addr()
	p := pool(t, u.String())
	run(t, p, "CREATE TABLE t (i int)")
	direct := pool(t, d.DSN())
	do(t, p, func(ctx context.Context, c *Conn) error {
		if err := proxy.Add("timeout", "downstream", map[string]any{"timeout": 0}); err != nil {
			return err
		}
		defer proxy.Reset()
		ctx, late := context.WithCancel(ctx)
		defer late()
		lost := make(chan error, 1)
		go func() { _, err := c.Simple(overdue{ctx}, "INSERT INTO t VALUES (1)"); lost <- err }()
		awaitRow(t, direct) // the request has arrived, and only its answer is lost
		late()
		err := <-lost
		if err == nil || Answered(err) {
			t.Errorf("an answer that was lost: %v", err)
		}
		want(t, "black hole", Explain(err, "insert", "t"), "retry "+CodeUnreachable)
		return nil
	})
	do(t, direct, func(ctx context.Context, c *Conn) error {
		d.Kill(t)
		_, err := c.Simple(ctx, "INSERT INTO t VALUES (2)")
		if Answered(err) {
			t.Errorf("a killed server answered: %v", err)
		}
		if stream.ClassOf(Explain(err, "insert", "t")) != stream.Retry { // a last word of the server, or none
			t.Errorf("killed: %v", err)
		}
		return nil
	})
	want(t, "while it is down", direct.With(t.Context(), func(*Conn) error { return nil }), "retry "+CodeUnreachable)
	d.Restart(t)
	do(t, direct, func(ctx context.Context, c *Conn) error { _, err := c.Simple(ctx, "SELECT 1"); return err })
}

// overdue is a context that ends as if its deadline had passed.
type overdue struct{ context.Context }

func (o overdue) Err() error {
	if o.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

// awaitRow waits until table t has a row.
func awaitRow(t *testing.T, p *Pool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline, n := time.Now().Add(time.Minute), 0; n == 0; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("no row within a minute")
		}
		do(t, p, func(ctx context.Context, c *Conn) error {
			return c.QueryRow(ctx, "SELECT count(*)::int FROM t", nil, &n)
		})
	}
}
