package http

import (
	"context"
	"encoding/json"
	"errors"

	"etl/sink/wal"
	"etl/stream"
)

// front makes JSON of records. It never asks the endpoint.
type front struct {
	cfg    Config
	room   *wal.Room
	encode Encoder
	json   []byte
	row    []byte
}

// Open has nothing to connect to.
func (f *front) Open(_ context.Context, env stream.Env) error {
	f.room = wal.NewRoom(&env, f.cfg.Memory, f.cfg.SpillDir)
	f.encode = asItIs
	if f.cfg.Encode != nil {
		f.encode = f.cfg.Encode()
	}
	return nil
}

// asItIs writes the value, null when there is none.
func asItIs(dst []byte, r *stream.Record) ([]byte, error) {
	if r.Value == nil {
		return append(dst, "null"...), nil
	}
	return append(dst, r.Value...), nil
}

// Begin returns an epoch without rows.
func (f *front) Begin() (wal.Epoch, error) { return &epoch{f: f, log: f.room.NewLog()}, nil }

// Close has nothing to do.
func (f *front) Close() error { return nil }

// epoch is the rows between two barriers.
type epoch struct {
	f   *front
	log *wal.Log
}

var errNotJSON = errors.New("the value is not JSON")

func (e *epoch) Add(r *stream.Record, _ *stream.Batch) (int, error) {
	f := e.f
	var err error
	if f.json, err = f.encode(f.json[:0], r); err != nil {
		return 0, err
	}
	// One row that is not JSON would make its whole request unreadable.
	if !json.Valid(f.json) {
		return 0, stream.Errorf(stream.Failed, "http.not_json", "write row", "", "%w", errNotJSON)
	}
	f.row = wal.AppendBytes(wal.AppendPlace(f.row[:0], r), f.json)
	return e.log.Add(f.row)
}

func (e *epoch) Rows() int64 { return e.log.Rows() }

// plan says how rows are cut into requests.
type plan struct {
	Format   Format `json:"format"`
	MaxRows  int    `json:"max_rows"`
	MaxBytes int    `json:"max_bytes"`
}

func (e *epoch) Plan() (json.RawMessage, error) {
	return json.Marshal(plan{e.f.cfg.Format, e.f.cfg.MaxRows, e.f.cfg.MaxBytes})
}

func (e *epoch) Segments(f func(rows int, body []byte) error) error { return e.log.Segments(f) }

func (e *epoch) Free() { e.log.Free() }

// item is one row as it lies in the log.
type item struct {
	place stream.Record
	json  []byte
}

func readRow(b []byte) (it item, err error) {
	r := wal.NewReader(b)
	r.Place(&it.place)
	it.json = r.Bytes()
	if err := r.Err(); err != nil {
		return it, err
	}
	if len(it.json) == 0 {
		return it, errors.New("a row without JSON")
	}
	return it, nil
}
