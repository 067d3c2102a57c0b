// Package sqltest is what the tests of sinks that write SQL tables share: the sink's
// connection, statements of the test, a process that is stopped and overtaken, and an
// encoder for the rows of package sinktest.
package sqltest

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"etl/checkpoint"
	"etl/expr"
	"etl/expr/decimal"
	"etl/internal/fault"
	"etl/internal/pgconn"
	"etl/sink"
	"etl/sink/sqltxn"
	"etl/stream"
)

// Conn returns the sink's connection to an address, with the password taken out of it.
func Conn(t testing.TB, dsn string) pgconn.Config {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	pw, _ := u.User.Password()
	u.User = url.User(u.User.Username())
	return pgconn.Config{DSN: u.String(), Password: stream.Secret(pw)}
}

// Exec runs a statement.
func Exec(t testing.TB, p *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := p.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Text returns what a query gives, as text.
func Text(t testing.TB, p *pgxpool.Pool, sql string, args ...any) (s string) {
	t.Helper()
	if err := p.QueryRow(context.Background(), "SELECT coalesce(("+sql+")::text, 'null')", args...).Scan(&s); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return s
}

// Hold stops the first that passes a fault point, as a signal stops a process: there is
// closed when it stands, and release lets it go on. The end of the test does, too.
func Hold(t testing.TB, point string) (there <-chan struct{}, release func()) {
	stopped, free := make(chan struct{}), make(chan struct{})
	var passed atomic.Bool
	fault.Watch(func(name string) {
		if name == point && passed.CompareAndSwap(false, true) {
			close(stopped)
			<-free
		}
	})
	release = sync.OnceFunc(func() { close(free) })
	t.Cleanup(func() { release(); fault.Watch(nil) })
	return stopped, release
}

// Commit commits as the ledger does, which repeats what may get better.
func Commit(ctx context.Context, c sink.Committer, p checkpoint.Permit, k checkpoint.Committable) (r sink.Result, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for {
		if r, err = c.Commit(ctx, p, k); err != nil || r.Outcome != sink.Transient {
			return r, err
		}
	}
}

// Encoder writes the key as text and the value, decimal digits, as a number. A record
// without a value is a delete.
func Encoder() sqltxn.Encoder {
	return func(r *stream.Record, row *sqltxn.Row) error {
		if r.Key == nil {
			row.Value(expr.NullValue())
		} else {
			row.Value(expr.TextValue(r.Key))
		}
		if r.Value == nil {
			row.Delete()
			return nil
		}
		n, err := strconv.ParseInt(string(r.Value), 10, 64)
		if err != nil {
			return errors.New("not a number")
		}
		row.Value(expr.NumberValue(decimal.Int(n)))
		return nil
	}
}
