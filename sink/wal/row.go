package wal

import (
	"encoding/binary"
	"errors"
	"fmt"

	"etl/stream"
)

// AppendBytes writes b behind its length. Null and empty stay different: the length is
// written plus one, 0 for null.
func AppendBytes(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 0)
	}
	return append(binary.AppendUvarint(dst, uint64(len(b))+1), b...)
}

// AppendPlace writes where a record was read.
func AppendPlace(dst []byte, r *stream.Record) []byte {
	dst = AppendBytes(dst, []byte(r.Topic))
	dst = binary.AppendVarint(dst, int64(r.Partition))
	return binary.AppendVarint(dst, r.Offset)
}

// Reader reads what the Append functions wrote. After the first thing that is not whole
// everything reads as zero, and Err says so.
type Reader struct {
	b   []byte
	bad bool
}

// NewReader returns a reader of one row.
func NewReader(b []byte) *Reader { return &Reader{b: b} }

// Err returns what was wrong, also when something is left.
func (r *Reader) Err() error {
	switch {
	case r.bad:
		return errors.New("a row that is cut off")
	case len(r.b) > 0:
		return fmt.Errorf("%d bytes behind the end of a row", len(r.b))
	}
	return nil
}

// Uvarint reads a number.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	return advance(r, v, n)
}

// Varint reads a signed number.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.b)
	return advance(r, v, n)
}

func advance[T any](r *Reader, v T, n int) T {
	var zero T
	if n <= 0 || r.bad {
		r.bad, r.b = true, nil
		return zero
	}
	r.b = r.b[n:]
	return v
}

// Bytes reads what AppendBytes wrote; the result points into the row.
func (r *Reader) Bytes() []byte {
	n := r.Uvarint()
	if n == 0 || r.bad {
		return nil
	}
	if n--; n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

// Place reads what AppendPlace wrote into the fields of a record.
func (r *Reader) Place(rec *stream.Record) {
	rec.Topic = string(r.Bytes())
	p := r.Varint()
	rec.Partition, rec.Offset, rec.Pos = int32(p), r.Varint(), -1
	if p != int64(rec.Partition) {
		r.bad = true
	}
}

// EachRow splits the body of a segment of a [Log]: rows lie one behind the other, each
// behind its length.
func (s *Segment) EachRow(f func(row []byte) error) error {
	rest := s.Body
	for i := range s.Rows {
		n, k := binary.Uvarint(rest)
		if k <= 0 || n > uint64(len(rest)-k) {
			return fmt.Errorf("row %d of %d is cut off", i, s.Rows)
		}
		end := k + int(n)
		if err := f(rest[k:end:end]); err != nil {
			return err
		}
		rest = rest[end:]
	}
	if len(rest) > 0 {
		return fmt.Errorf("%d bytes behind the last row", len(rest))
	}
	return nil
}
