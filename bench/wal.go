package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"

	"github.com/jackc/pgx/v5"
	wire "github.com/jackc/pgx/v5/pgconn"

	"etl/checkpoint"
	"etl/checkpoint/filestore"
	"etl/expr"
	"etl/internal/pgconn"
	"etl/internal/pgtest"
	"etl/sink"
	"etl/sink/sqltxn"
	"etl/sink/wal"
	walhttp "etl/sink/wal/http"
	walpg "etl/sink/wal/postgres"
	"etl/stream"
)

// walSection compares the write-ahead log, segments on disk, markers and checkpoints included,
// with a bare program that does to the outside what its deliveries do: COPY of the same rows
// in transactions of the same size, requests with the same bodies.
func walSection(ctx context.Context, l *lab) error {
	s, err := pgtest.Run(ctx, pgtest.Config{})
	if err != nil {
		return err
	}
	defer func() { _ = s.Stop() }() // its data goes anyway
	if err := os.Setenv(benchPostgres, s.DSN()); err != nil {
		return err
	}
	if err := l.rounds(ctx, "floor-copy-in", "etl-wal-append"); err != nil {
		return err
	}
	l.ratio("etl-wal-append", "floor-copy-in", rate, "rate", "-")
	l.ratio("etl-wal-append", "floor-copy-in", cpu, "CPU", "-")
	if err := l.rounds(ctx, "floor-post", "etl-wal-http"); err != nil {
		return err
	}
	l.ratio("etl-wal-http", "floor-post", rate, "rate", "-")
	fmt.Printf("   deliveries of %d rows: %.0f/s, bare requests %.0f/s\n", rowsOfRequest, l.median("etl-wal-http", rate)/rowsOfRequest, l.median("floor-post", rate)/rowsOfRequest)
	return nil
}

const rowsOfRequest = 100

// appended makes an empty table without keys.
func appended(ctx context.Context) (*pgx.Conn, string, error) {
	c, dsn, err := table(ctx)
	if err == nil {
		_, err = c.Exec(ctx, "DROP TABLE bench; CREATE TABLE bench (k text NOT NULL, n int8 NOT NULL)")
	}
	return c, dsn, err
}

// floorCopyIn encodes and copies the rows of a checkpoint in a transaction.
func floorCopyIn(ctx context.Context, w *work) error {
	c, _, err := appended(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }() // the process ends
	b := []byte{}
	for at := 0; w.meter.seen.Load() < int64(w.records); at += rowsOfCheckpoint {
		b = append(b[:0], "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)
		for i := range rowsOfCheckpoint {
			key := keyOf(at + i)
			b = binary.BigEndian.AppendUint16(b, 2)
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(key))), key...)
			b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, 8), uint64(at+i))
		}
		b = append(b, 0xff, 0xff)
		if _, err := copyFrom(ctx, c.PgConn(), b); err != nil {
			return err
		}
		w.meter.add(rowsOfCheckpoint)
	}
	return nil
}

func copyFrom(ctx context.Context, c *wire.PgConn, b []byte) (int64, error) {
	tag, err := c.CopyFrom(ctx, bytes.NewReader(b), "COPY bench (k, n) FROM STDIN (FORMAT binary)")
	return tag.RowsAffected(), err
}

func etlWALAppend(ctx context.Context, w *work) error {
	c, dsn, err := appended(ctx)
	if err != nil {
		return err
	}
	if err := c.Close(ctx); err != nil {
		return err
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return err
	}
	password, _ := u.User.Password()
	u.User = url.User(u.User.Username())
	cfg := walpg.Config{Conn: pgconn.Config{DSN: u.String(), Password: pgconn.Secret(password)}, Table: "bench", Columns: []string{"k", "n"},
		Encoder: func() sqltxn.Encoder {
			return func(r *stream.Record, row *sqltxn.Row) error {
				row.Value(expr.TextValue(r.Key))
				row.Value(expr.IntValue(r.Offset))
				return nil
			}
		}}
	if err := cfg.Initialise(ctx, stream.SystemWorld(nil), "bench", "out", ""); err != nil {
		return err
	}
	return w.throughLog(ctx, walpg.New(cfg), rowsOfCheckpoint)
}

// throughLog takes checkpoint after checkpoint through a log on disk; the delivery of one goes
// on while the rows of the next are written, as in a job.
func (w *work) throughLog(ctx context.Context, s *wal.Sink, rows int) error {
	dir, err := os.MkdirTemp("", "etl-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	world := stream.SystemWorld(nil)
	st, err := filestore.Open(world, dir)
	if err != nil {
		return err
	}
	a, err := checkpoint.OpenAttempt(ctx, st, checkpoint.AttemptOptions{World: world, Holder: checkpoint.Holder{Host: "bench"}})
	if err != nil {
		return err
	}
	up := checkpoint.NewUploader(checkpoint.UploaderOptions{Storage: st, World: world, Lineage: a.Lineage(), Attempt: a.Number()})
	defer up.Close()
	wr, co := s.NewWriter(), s.NewCommitter()
	defer func() { _, _ = wr.Close(), co.Close() }() // the process ends
	if err := co.Open(ctx, sink.CommitEnv{World: world, Job: "bench", Lineage: a.Lineage(), Attempt: a.Number(), UID: "out", Objects: checkpoint.NewObjects(st)}); err != nil {
		return err
	}
	if err := wr.Open(ctx, stream.Env{World: world, Job: "bench", UID: "out", Attempt: a.Number(), Parallelism: 1, Lineage: a.Lineage()}, nil); err != nil {
		return err
	}
	delivered := make(chan error, 1)
	delivered <- nil
	for at, n := 0, uint32(1); w.meter.seen.Load() < int64(w.records); n++ {
		for end := at + rows; at < end; at += 8192 {
			b := stream.NewBatch(nil)
			for i := range min(8192, end-at) {
				key := keyOf(at + i)
				b.Append(stream.Record{Key: []byte(key), Value: fmt.Appendf(nil, `{"k":%q,"n":%d}`, key, at+i), Topic: "in", Offset: int64(at + i), Pos: -1})
			}
			if err := wr.Write(ctx, b, nil); err != nil {
				return err
			}
		}
		at = int(n) * rows
		id := stream.NewCheckpointID(a.Number(), n)
		p, err := wr.PrepareCommit(ctx, id, nil)
		if err != nil {
			return err
		}
		got, err := p.Finish(ctx, up)
		if err != nil {
			return err
		}
		permit, err := a.Publish(ctx, &checkpoint.Metadata{Version: checkpoint.MetadataVersion, Job: "bench", Lineage: a.Lineage(), ID: id, Kind: "periodic", Mode: "exactly_once", MaxParallelism: 128, Committables: got.Committables})
		if err != nil {
			return err
		}
		wr.Published(id)
		if err := <-delivered; err != nil {
			return err
		}
		go func() {
			r, err := co.Commit(ctx, permit, got.Committables[0])
			if err == nil && r.Outcome != sink.Done {
				err = fmt.Errorf("the delivery of %s is %s: %s", id, r.Outcome, r.Detail)
			}
			w.meter.add(rows)
			delivered <- err
		}()
	}
	return <-delivered
}

// taker is an endpoint that takes everything.
func taker() (string, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })) // until the process ends
	}()
	return "http://" + l.Addr().String() + "/", nil
}

// floorPost makes the same requests with nothing behind them.
func floorPost(ctx context.Context, w *work) error {
	to, err := taker()
	if err != nil {
		return err
	}
	b := []byte{}
	for at := 0; w.meter.seen.Load() < int64(w.records); at += rowsOfRequest {
		b = append(b[:0], '[')
		for i := range rowsOfRequest {
			b = fmt.Appendf(b, `{"k":%q,"n":%d},`, keyOf(at+i), at+i)
		}
		b[len(b)-1] = ']'
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(b))
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		if err := resp.Body.Close(); err != nil {
			return err
		}
		w.meter.add(rowsOfRequest)
	}
	return nil
}

func etlWALHTTP(ctx context.Context, w *work) error {
	to, err := taker()
	if err != nil {
		return err
	}
	return w.throughLog(ctx, walhttp.New(walhttp.Config{URL: to, MaxRows: rowsOfRequest}), rowsOfRequest*1000)
}
