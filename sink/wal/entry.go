package wal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"etl/checkpoint"
	"etl/state"
	"etl/stream"
)

// Version is that of committables.
const Version = 1

// reader is the part of checkpoint storage that a delivery needs.
type reader interface {
	Read(ctx context.Context, h state.Handle) (io.ReadCloser, error)
}

// decode reads a committable of a target's kind.
func decode(c *checkpoint.Committable, kind string, objects reader) (*Entry, error) {
	e := &Entry{Committable: *c, objects: objects}
	p, err := decodePayload(c, kind)
	if err != nil {
		refused := stream.Errorf(stream.RestoreRefused, "wal.committable", "read committable", fmt.Sprintf("checkpoint %s of %s", c.Checkpoint, c.Lane()), "%w", err)
		if c.Kind != kind {
			refused = refused.WithFix("start once more with the sink's old type and delivery, stop the job, then change them")
		}
		return nil, refused
	}
	e.Prepared, e.Bytes, e.Plan = time.UnixMilli(p.PreparedMillis).UTC(), p.Bytes, p.Plan
	return e, nil
}

func decodePayload(c *checkpoint.Committable, kind string) (p payload, err error) {
	switch {
	case c.Kind != kind:
		return p, fmt.Errorf("its kind is %q, not %q", c.Kind, kind)
	case c.Version != Version:
		return p, fmt.Errorf("its version is %d; this program knows %d", c.Version, Version)
	}
	if err := Strict(c.Payload, &p); err != nil {
		return p, err
	}
	switch {
	case p.PreparedMillis <= 0 || p.Bytes < 0:
		return p, fmt.Errorf("prepared at %d with %d bytes", p.PreparedMillis, p.Bytes)
	case len(c.Objects) == 0 || c.Rows <= 0:
		return p, fmt.Errorf("%d rows in %d segments: an epoch without rows has no committable", c.Rows, len(c.Objects))
	}
	return p, nil
}

// Strict reads one JSON value without unknown fields and nothing after it.
func Strict(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something after it")
	}
	return nil
}

// Segments returns how many segments there are.
func (e *Entry) Segments() int { return len(e.Objects) }

// Segment reads one of them and checks everything it says of itself. into is memory for
// it, nil for none.
func (e *Entry) Segment(ctx context.Context, i int, into []byte) (*Segment, error) {
	h := e.Objects[i]
	r, err := e.objects.Read(ctx, h)
	if err != nil {
		return nil, err
	}
	b, err := readAll(r, h.Size, into)
	err = errors.Join(err, r.Close())
	if err != nil {
		return nil, err
	}
	s, err := DecodeSegment(b)
	if err == nil && (s.Kind != e.Kind || s.Checkpoint != e.Checkpoint || s.Subtask != e.Subtask || s.Number != i) {
		err = fmt.Errorf("it is number %d of %s of subtask %d, kind %q", s.Number, s.Checkpoint, s.Subtask, s.Kind)
	}
	if err != nil {
		return nil, e.Damaged(i, err)
	}
	return s, nil
}

func readAll(r io.Reader, size int64, into []byte) ([]byte, error) {
	if int64(cap(into)) < size {
		into = make([]byte, size)
	}
	into = into[:size]
	if _, err := io.ReadFull(r, into); err != nil {
		return nil, err
	}
	// The checksum of the handle is verified by the read that finds the end.
	var one [1]byte
	if _, err := r.Read(one[:]); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return into, nil
}

// Damaged is the error of a segment that is not what was written.
func (e *Entry) Damaged(i int, err error) error {
	return stream.Errorf(stream.RestoreRefused, "wal.segment", "read segment", fmt.Sprintf("%d of checkpoint %s of %s", i, e.Checkpoint, e.Lane()), "%w", err).
		WithFix("put object %s back from a copy; the rows came from %v", e.Objects[i].Object, e.Sources)
}

// Each calls f with each segment in order, and fails unless all rows were there.
func (e *Entry) Each(ctx context.Context, f func(*Segment) error) error {
	rows, buf := int64(0), []byte(nil)
	for i := range e.Objects {
		s, err := e.Segment(ctx, i, buf)
		if err != nil {
			return err
		}
		rows += int64(s.Rows)
		if err := f(s); err != nil {
			return err
		}
		buf = s.Body[:0] // most of the memory; segments have about one size
	}
	if rows != e.Rows {
		return e.Damaged(0, fmt.Errorf("its segments hold %d rows instead of %d", rows, e.Rows))
	}
	return nil
}

// EachRow calls f with each row of an epoch of a [Log], in order. What f is given is valid
// until it returns.
func (e *Entry) EachRow(ctx context.Context, f func(row []byte) error) error {
	return e.Each(ctx, func(s *Segment) error {
		var stopped error
		err := s.EachRow(func(row []byte) error {
			stopped = f(row)
			return stopped
		})
		if err != nil && stopped == nil {
			return e.Damaged(s.Number, err)
		}
		return err
	})
}
