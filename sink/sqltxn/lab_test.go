package sqltxn

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"go.uber.org/goleak"

	"etl/expr"
	"etl/internal/pgconn"
	"etl/internal/pgtest"
	"etl/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Runner(m)) }

// lab is an empty database on a real server.
type lab struct {
	testing.TB
	p    *pgconn.Pool
	book Book
}

func newLab(t testing.TB) *lab {
	t.Helper()
	u, err := url.Parse(pgtest.Shared(t).NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	pw, _ := u.User.Password()
	u.User = url.User(u.User.Username())
	q := u.Query()
	q.Set("timezone", "UTC") // what the server prints is the same wherever the machine is
	u.RawQuery = q.Encode()
	p, err := pgconn.Open(t.Context(), pgconn.Config{DSN: u.String(), Password: stream.Secret(pw)}, 4, "etl test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return &lab{t, p, Book{Schema: DefaultSchema, Names: Names{Job: "job", Sink: "out", Lineage: stream.Lineage{1, 2, 3}}}}
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// do runs f on a connection.
func (l *lab) do(f func(ctx context.Context, c *pgconn.Conn) error) {
	l.Helper()
	l.must(l.p.With(l.Context(), func(c *pgconn.Conn) error { return f(l.Context(), c) }))
}

func (l *lab) run(statements ...string) {
	l.Helper()
	l.do(func(ctx context.Context, c *pgconn.Conn) error {
		for _, s := range statements {
			if _, err := c.Simple(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", s, err)
			}
		}
		return nil
	})
}

// text returns the first column of the first row.
func (l *lab) text(sql string) (s string) {
	l.Helper()
	l.do(func(ctx context.Context, c *pgconn.Conn) error {
		return c.QueryRow(ctx, "SELECT coalesce(("+sql+")::text, 'null')", nil, &s)
	})
	return s
}

// target looks at a table, and sets the books up for it.
func (l *lab) target(table string, mode Mode, columns, key []string) *Target {
	l.Helper()
	var g *Target
	l.do(func(ctx context.Context, c *pgconn.Conn) error {
		schema, name, err := SplitTable(table)
		l.must(err)
		t, err := LoadTable(ctx, c, schema, name)
		if err != nil {
			return err
		}
		var errs []error
		if g, errs = NewTarget(t, mode, columns, key); len(errs) > 0 {
			return errors.Join(errs...)
		}
		return ApplyStatements(ctx, c, l.book.Setup(g, ""))
	})
	return g
}

// rows makes an epoch: each argument is a row, its values given as ints, texts, bools,
// nil for null. A row that ends in deleted is a delete.
func (l *lab) rows(g *Target, values ...[]any) *Rows {
	l.Helper()
	rows, row := NewRows(NewMemory(stream.SystemFS{}, 1<<20, l.TempDir(), "x"), g.Mode != Append, true), NewRow(g)
	for i, vs := range values {
		row.Reset()
		for _, v := range vs {
			if v == deleted {
				row.Delete()
				continue
			}
			row.Value(value(v))
		}
		l.must(rows.Add(row, &stream.Record{Topic: "in", Partition: 2, Offset: int64(i)}))
	}
	return rows
}

const deleted = "\x00deleted"

func value(v any) expr.Value {
	switch v := v.(type) {
	case nil:
		return expr.NullValue()
	case int:
		return expr.IntValue(int64(v))
	case bool:
		return expr.BoolValue(v)
	}
	return expr.StringValue(v.(string))
}

// write writes an epoch into the target and commits.
func (l *lab) write(g *Target, rows *Rows, skip Bad) error {
	return l.p.With(l.Context(), func(c *pgconn.Conn) error {
		if err := c.Begin(l.Context(), time.Second); err != nil {
			return err
		}
		if err := g.Write(l.Context(), c, rows, skip); err != nil {
			return err
		}
		return c.Commit(l.Context())
	})
}

const second = time.Second

var id = stream.NewCheckpointID(1, 7)
