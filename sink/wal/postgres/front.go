package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"etl/internal/pgconn"
	"etl/sink/sqltxn"
	"etl/sink/wal"
	"etl/stream"
)

// front makes rows of records: it needs the server only once, for the table's types.
type front struct {
	cfg    Config
	book   sqltxn.Book
	target *sqltxn.Target
	mem    *sqltxn.Memory
	encode sqltxn.Encoder
	row    *sqltxn.Row
}

// Open looks at the table, the books and the rights.
func (f *front) Open(ctx context.Context, env stream.Env) error {
	if f.cfg.Encoder == nil {
		return errors.New("no encoder is given")
	}
	f.book = f.cfg.book(env.Job, env.UID, env.Lineage)
	name := pgconn.Application(env.Lineage, env.Attempt, env.Job, env.UID)
	errs := f.cfg.look(ctx, env.World, name, func(conn *pgconn.Conn, g *sqltxn.Target) error {
		f.target = g
		return f.book.CheckLogRights(ctx, conn, g)
	})
	if len(errs) > 0 {
		return errs[0]
	}
	room := wal.NewRoom(&env, f.cfg.Memory, f.cfg.SpillDir)
	f.mem = sqltxn.NewMemory(env.FS, f.cfg.Memory, f.cfg.SpillDir, room.Name)
	f.encode, f.row = f.cfg.Encoder(), sqltxn.NewRow(f.target)
	return nil
}

// Begin returns an epoch without rows.
func (f *front) Begin() (wal.Epoch, error) {
	return &epoch{f: f, rows: sqltxn.NewRows(f.mem, f.cfg.Mode != sqltxn.Append, f.cfg.KeepRecords)}, nil
}

// Close has nothing to do.
func (f *front) Close() error { return nil }

// epoch is the rows between two barriers, reduced to the last one per key as they come.
type epoch struct {
	f    *front
	rows *sqltxn.Rows
}

func (e *epoch) Add(r *stream.Record, _ *stream.Batch) (int, error) {
	row := e.f.row
	row.Reset()
	if err := e.f.encode(r, row); err != nil {
		return 0, err
	}
	return row.Size(), e.rows.Add(row, r)
}

func (e *epoch) Rows() int64 { return int64(e.rows.Len()) }

func (e *epoch) Plan() (json.RawMessage, error) {
	b, err := json.Marshal(e.f.book.LayoutOf(e.f.target, e.rows))
	if err != nil {
		return nil, fmt.Errorf("the rows cannot be described: %w", err)
	}
	return b, nil
}

func (e *epoch) Segments(f func(rows int, body []byte) error) error { return e.rows.Frames(f) }

func (e *epoch) Free() { e.rows.Free() }
