package main

import (
	"context"
	"fmt"
	"net/url"
	"os"

	"github.com/jackc/pgx/v5"

	"etl/checkpoint"
	"etl/expr"
	"etl/internal/pgconn"
	"etl/internal/pgtest"
	"etl/sink/idempotent/postgres"
	"etl/sink/sqltxn"
	"etl/stream"
)

// idempotentSection compares the idempotent sink, versions and checkpoints included, with
// a bare program that upserts the same rows in batches of the same size.
func idempotentSection(ctx context.Context, l *lab) error {
	s, err := pgtest.Run(ctx, pgtest.Config{})
	if err != nil {
		return err
	}
	defer func() { _ = s.Stop() }() // its data goes anyway
	if err := os.Setenv(benchPostgres, s.DSN()); err != nil {
		return err
	}
	full := l.o.records
	l.o.records = min(full, 1_000_000)
	defer func() { l.o.records = full }()
	if err := l.rounds(ctx, "floor-upsert", "etl-upsert"); err != nil {
		return err
	}
	l.ratio("etl-upsert", "floor-upsert", rate, "rate", ">= 0.80")
	l.ratio("etl-upsert", "floor-upsert", cpu, "CPU", "-")
	return nil
}

// benchPostgres names the server to the children.
const benchPostgres = "ETL_BENCH_POSTGRES"

const (
	// keysOfTable is the number of rows in the table.
	keysOfTable = 100_000
	// rowsOfUpsert is how many rows one statement has.
	rowsOfUpsert = 8192
	// rowsOfCheckpoint go between two checkpoints, about a second's.
	rowsOfCheckpoint = 16 * rowsOfUpsert
)

// table makes an empty table and returns a connection and the address.
func table(ctx context.Context) (*pgx.Conn, string, error) {
	dsn := os.Getenv(benchPostgres)
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, "", err
	}
	_, err = c.Exec(ctx, "DROP TABLE IF EXISTS bench; CREATE TABLE bench (k text PRIMARY KEY, n int8 NOT NULL)")
	return c, dsn, err
}

func keyOf(i int) string { return fmt.Sprintf("user-%08d", i*7919%keysOfTable) }

func floorUpsert(ctx context.Context, w *work) error {
	c, _, err := table(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }() // the process ends
	keys, numbers := make([]string, rowsOfUpsert), make([]int64, rowsOfUpsert)
	for at := 0; w.meter.seen.Load() < int64(w.records); at += rowsOfUpsert {
		for i := range rowsOfUpsert {
			keys[i], numbers[i] = keyOf(at+i), int64(at+i)
		}
		if _, err := c.Exec(ctx, "INSERT INTO bench (k, n) SELECT * FROM unnest($1::text[], $2::int8[]) ON CONFLICT (k) DO UPDATE SET n = EXCLUDED.n", keys, numbers); err != nil {
			return err
		}
		w.meter.add(rowsOfUpsert)
	}
	return nil
}

func etlUpsert(ctx context.Context, w *work) error {
	c, dsn, err := table(ctx)
	if err != nil {
		return err
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return err
	}
	password, _ := u.User.Password()
	u.User = url.User(u.User.Username())
	cfg := postgres.Config{Conn: pgconn.Config{DSN: u.String(), Password: pgconn.Secret(password)}, Table: "bench", Key: []string{"k"}, Columns: []string{"k", "n"},
		Policy: policy(checkpoint.ExactlyOnce), Encoder: func() sqltxn.Encoder {
			return func(r *stream.Record, row *sqltxn.Row) error {
				row.Value(expr.TextValue(r.Key))
				row.Value(expr.IntValue(r.Offset))
				return nil
			}
		}}
	if _, err := c.Exec(ctx, cfg.DDL()); err != nil {
		return err
	}
	if err := c.Close(ctx); err != nil {
		return err
	}
	s := postgres.New(cfg).NewWriter()
	env := stream.Env{World: stream.SystemWorld(nil), Job: "bench", UID: "out", Attempt: 1, Parallelism: 1, Lineage: stream.Lineage{1}}
	if err := s.Open(ctx, env, nil); err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // the process ends
	for at, id := 0, uint32(1); w.meter.seen.Load() < int64(w.records); id++ {
		for end := at + rowsOfCheckpoint; at < end; at += rowsOfUpsert {
			b := stream.NewBatch(nil)
			for i := range rowsOfUpsert {
				b.Append(stream.Record{Key: []byte(keyOf(at + i)), Value: []byte{}, Topic: "in", Offset: int64(at + i), Pos: -1, Version: uint64(at+i)/keysOfTable + 1})
			}
			if err := s.Write(ctx, b, nil); err != nil {
				return err
			}
		}
		p, err := s.PrepareCommit(ctx, stream.NewCheckpointID(1, id), nil)
		if err != nil {
			return err
		}
		if _, err := p.Finish(ctx, nil); err != nil {
			return err
		}
		w.meter.add(rowsOfCheckpoint)
	}
	return nil
}
