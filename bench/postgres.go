package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"etl/checkpoint"
	"etl/expr"
	"etl/internal/pgconn"
	"etl/internal/pgtest"
	"etl/sink/idempotent/postgres"
	"etl/sink/sqltxn"
	twophase "etl/sink/twophase/postgres"
	walpg "etl/sink/wal/postgres"
	"etl/stream"
)

// postgresSection compares every way of delivery, markers, checkpoints and what the two
// phases need included, with bare programs that write the same rows: COPY as pgx has it,
// COPY of rows that are encoded by hand straight into the message, upserts from arrays.
func postgresSection(ctx context.Context, l *lab) error {
	s, err := pgtest.Run(ctx, pgtest.Config{})
	if err != nil {
		return err
	}
	defer func() { _ = s.Stop() }() // its data goes anyway
	if err := os.Setenv(benchPostgres, s.DSN()); err != nil {
		return err
	}
	if err := l.appends(ctx); err != nil {
		return err
	}
	if err := l.upserts(ctx); err != nil {
		return err
	}
	return l.commits(ctx)
}

func (l *lab) appends(ctx context.Context) error {
	works := []string{"etl-prepared", "etl-staged", "etl-wal"}
	if err := l.with(max(l.o.records, 6*rowsOfCopy)).rounds(ctx, append([]string{"floor-copy-pgx", "floor-copy-in"}, works...)...); err != nil {
		return err
	}
	for i, aim := range []string{">= 0.70", ">= 0.50", "-"} {
		l.ratio(works[i], "floor-copy-pgx", rate, "rate", aim)
		l.ratio(works[i], "floor-copy-in", rate, "rate", "-")
		l.ratio(works[i], "floor-copy-pgx", cpu, "CPU", "-")
		l.ratio(works[i], "floor-copy-in", cpu, "CPU", "-")
	}
	return nil
}

func (l *lab) upserts(ctx context.Context) error {
	works := []string{"etl-prepared-up", "etl-staged-up", "etl-idempotent-up"}
	if err := l.with(min(l.o.records/2, 8*rowsOfUpserts)).rounds(ctx, append([]string{"floor-upsert"}, works...)...); err != nil {
		return err
	}
	for _, w := range works {
		l.ratio(w, "floor-upsert", rate, "rate", ">= 0.80")
		l.ratio(w, "floor-upsert", cpu, "CPU", "-")
	}
	return nil
}

func (l *lab) commits(ctx context.Context) error {
	n := min(l.o.records/6000, 300)
	for _, w := range []string{"commit-prepared", "commit-staged", "commit-wal"} {
		m, err := l.with(n*rowsOfCommit).measure(ctx, w)
		if err != nil {
			return err
		}
		fmt.Printf("   %-22s from permit to committed, %d rows: p50 %v  p99 %v of %d checkpoints\n", w, rowsOfCommit, m.CommitP50.Round(10*time.Microsecond), m.CommitP99.Round(10*time.Microsecond), m.Checkpoints)
	}
	return nil
}

// benchPostgres names the server to the children.
const benchPostgres = "ETL_BENCH_POSTGRES"

const (
	// rowsOfBatch is how many rows one batch, and one statement of the bare upsert, has.
	rowsOfBatch = 8192
	// rowsOfCopy and rowsOfUpserts go between two checkpoints, about a second's; no two of
	// these have one key. rowsOfCommit are those of a job that keeps up.
	rowsOfCopy    = 40 * rowsOfBatch
	rowsOfUpserts = 12 * rowsOfBatch
	rowsOfCommit  = 10_000
	// keysOfTable is the number of rows in the table of the upserts.
	keysOfTable = rowsOfUpserts
)

// shape is a table and its rows.
type shape struct {
	columns string // of the table
	names   []string
	encode  sqltxn.Encoder
}

var (
	// events are rows of about 100 bytes that are inserted, as the values of the other
	// sections are.
	events = shape{"k text NOT NULL, n int8 NOT NULL, action text, price int8, pad text", []string{"k", "n", "action", "price", "pad"}, func(r *stream.Record, row *sqltxn.Row) error {
		row.Value(expr.TextValue(r.Key))
		row.Value(expr.IntValue(r.Offset))
		row.Value(expr.StringValue(actionOf(r.Offset)))
		row.Value(expr.IntValue(priceOf(r.Offset)))
		row.Value(expr.StringValue(pad))
		return nil
	}}
	// counts are a number for each key.
	counts = shape{"k text PRIMARY KEY, n int8 NOT NULL", []string{"k", "n"}, func(r *stream.Record, row *sqltxn.Row) error {
		row.Value(expr.TextValue(r.Key))
		row.Value(expr.IntValue(r.Offset))
		return nil
	}}
)

const pad = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

func actionOf(n int64) string { return [...]string{"buy", "cart", "fav"}[n%3] }
func priceOf(n int64) int64   { return n * 37 % 10_000 }

// table makes an empty table.
func (s shape) table(ctx context.Context) (*pgx.Conn, error) {
	c, err := pgx.Connect(ctx, os.Getenv(benchPostgres))
	if err == nil {
		_, err = c.Exec(ctx, "DROP TABLE IF EXISTS bench; CREATE TABLE bench ("+s.columns+"); CHECKPOINT")
	}
	return c, err
}

// empty makes an empty table for a sink.
func (s shape) empty(ctx context.Context) (pgconn.Config, error) {
	c, err := s.table(ctx)
	if err != nil {
		return pgconn.Config{}, err
	}
	if err := c.Close(ctx); err != nil {
		return pgconn.Config{}, err
	}
	return connection()
}

func (s shape) encoder() sqltxn.Encoder { return s.encode }

// rowsOf returns the keys and numbers of n rows.
func rowsOf(n int) (keys []string, numbers []int64) {
	for i := range n {
		keys, numbers = append(keys, fmt.Sprintf("user-%08d", i*7919%keysOfTable)), append(numbers, int64(i))
	}
	return keys, numbers
}

// recordsOf returns the same as records.
func recordsOf(n int) (out []*stream.Batch) {
	keys, numbers := rowsOf(n)
	for from := 0; from < n; from += rowsOfBatch {
		b := stream.NewBatch(nil)
		for i := from; i < min(from+rowsOfBatch, n); i++ {
			b.Append(stream.Record{Key: []byte(keys[i]), Value: []byte{}, Topic: "in", Offset: numbers[i], Pos: -1})
		}
		out = append(out, b)
	}
	return out
}

// connection is that of the sinks, whose address must not hold the password.
func connection() (pgconn.Config, error) {
	u, err := url.Parse(os.Getenv(benchPostgres))
	if err != nil {
		return pgconn.Config{}, err
	}
	password, _ := u.User.Password()
	u.User = url.User(u.User.Username())
	return pgconn.Config{DSN: u.String(), Password: stream.Secret(password)}, nil
}

func copied() *flow {
	return &flow{batches: recordsOf(8 * rowsOfBatch), repeats: rowsOfCopy / (8 * rowsOfBatch)}
}

func replaced() *flow { return &flow{batches: recordsOf(rowsOfUpserts), repeats: 1} }

func committed() *flow { return &flow{batches: recordsOf(rowsOfCommit), repeats: 1, single: true} }

// twoPhase is the work of a sink with two phases.
func twoPhase(s shape, cfg twophase.Config, f func() *flow) func(context.Context, *work) error {
	return func(ctx context.Context, w *work) (err error) {
		if cfg.Conn, err = s.empty(ctx); err != nil {
			return err
		}
		cfg.Table, cfg.Columns, cfg.Encoder, cfg.Policy, cfg.AcceptForeign = "bench", s.names, s.encoder, policy(checkpoint.ExactlyOnce), true
		if cfg.Mode == twophase.Upsert {
			cfg.Key = []string{"k"}
		}
		out := twophase.New(cfg)
		if err := initialise(ctx, out.Initialise); err != nil {
			return err
		}
		return w.through(ctx, out, f())
	}
}

// initialise makes the books, and the staging table anew.
func initialise(ctx context.Context, f func(ctx context.Context, w stream.World, job string, uid stream.UID, role string) error) error {
	c, err := pgx.Connect(ctx, os.Getenv(benchPostgres))
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, "DROP SCHEMA IF EXISTS etl CASCADE")
	if err = errors.Join(err, c.Close(ctx)); err != nil {
		return err
	}
	return f(ctx, stream.SystemWorld(nil), "bench", "out", "")
}

// logged is the work of a sink with a write-ahead log.
func logged(f func() *flow) func(context.Context, *work) error {
	return func(ctx context.Context, w *work) (err error) {
		cfg := walpg.Config{Table: "bench", Columns: events.names, Encoder: events.encoder, AcceptForeign: true}
		if cfg.Conn, err = events.empty(ctx); err != nil {
			return err
		}
		if err := initialise(ctx, cfg.Initialise); err != nil {
			return err
		}
		return w.through(ctx, walpg.New(cfg), f())
	}
}

// idempotentUpsert is the work of a sink with a guard of versions.
func idempotentUpsert(ctx context.Context, w *work) (err error) {
	cfg := postgres.Config{Table: "bench", Key: []string{"k"}, Columns: counts.names, Policy: policy(checkpoint.ExactlyOnce), Encoder: counts.encoder}
	if cfg.Conn, err = counts.empty(ctx); err != nil {
		return err
	}
	if err := cfg.Initialise(ctx, stream.SystemWorld(nil), "bench", "out", ""); err != nil {
		return err
	}
	f := replaced()
	f.changes = func(b *stream.Batch) {
		for i := range b.Records {
			b.Records[i].Version++
		}
	}
	return w.through(ctx, postgres.New(cfg), f)
}
