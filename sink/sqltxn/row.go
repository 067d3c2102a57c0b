package sqltxn

import (
	"errors"
	"fmt"
	"strings"

	"etl/expr"
	"etl/stream"
)

// Encoder turns a record into a row: it gives the row a value for each column of the
// target, in the order of [KeyFirst]. An error rejects the record.
type Encoder func(r *stream.Record, row *Row) error

// Row takes the values of one row, one call for each column. The first value that does
// not fit its column is remembered, and what follows is ignored.
type Row struct {
	t       *Target
	tuple   []byte // of COPY: number of fields, then fields
	n       int    // fields so far
	keyEnd  int    // end of the key's fields in tuple
	deletes bool
	err     error
}

// NewRow returns a row for a target. It is used again for every record.
func NewRow(t *Target) *Row { return &Row{t: t} }

// Size returns the size of the row in bytes.
func (r *Row) Size() int { return len(r.tuple) }

// Reset begins the next row.
func (r *Row) Reset() {
	r.tuple = be.AppendUint16(r.tuple[:0], uint16(len(r.t.Columns)))
	r.n, r.keyEnd, r.deletes, r.err = 0, 0, false, nil
}

// next returns the column whose turn it is, nil when there is none, or when a value
// before was bad.
func (r *Row) next() *Column {
	if r.err == nil && r.n == len(r.t.Columns) {
		r.err = fmt.Errorf("the row has more values than the %d columns", len(r.t.Columns))
	}
	if r.err != nil {
		return nil
	}
	return r.t.Columns[r.n]
}

// NextIsArray reports whether the next column takes List instead of Value.
func (r *Row) NextIsArray() bool {
	return r.err == nil && r.n < len(r.t.Columns) && r.t.Columns[r.n].Type.IsArray()
}

// Value gives the next column its value.
func (r *Row) Value(v expr.Value) {
	c := r.next()
	if c == nil {
		return
	}
	var err error
	if c.Type.IsArray() && !v.IsNull() {
		err = c.Type.refuse(v.Kind())
	} else {
		r.tuple, err = c.Type.Append(r.tuple, v, r.n < r.t.Key)
	}
	r.done(c, v.IsNull(), err)
}

// List gives the next column, an array, its elements: each calls add for every one.
func (r *Row) List(each func(add func(expr.Value) error) error) {
	c := r.next()
	if c == nil {
		return
	}
	var err error
	r.tuple, err = c.Type.appendList(r.tuple, each)
	r.done(c, false, err)
}

// done checks the column that was just written.
func (r *Row) done(c *Column, null bool, err error) {
	if err == nil && null {
		switch key := r.n < r.t.Key; {
		case key:
			err = badValue("null, and the column is part of the key")
		case c.NotNull && !r.deletes:
			err = badValue("null, and the column is not null")
		}
	}
	if err != nil {
		r.err = unfit(c, err)
		return
	}
	if r.n++; r.n == r.t.Key {
		r.keyEnd = len(r.tuple)
	}
}

// unfit is the error of a value that a column cannot take. It names no value.
func unfit(c *Column, err error) error {
	var bad badValue
	if !errors.As(err, &bad) {
		return err // the expression's own
	}
	return stream.Errorf(stream.Failed, "postgres.value", "write row", "column "+c.Name, "%s", strings.TrimSpace(string(bad)))
}

// Delete says that the row of this key is to be deleted. Only the values of the key
// count then; those of other columns may be null or left out.
func (r *Row) Delete() {
	switch {
	case r.t.Mode == UpsertDelete:
		r.deletes = true
	case r.err == nil:
		r.err = stream.Errorf(stream.Failed, "postgres.tombstone", "write row", "", "a null value, which mode %s does not take", r.t.Mode).
			WithFix("set mode: upsert_delete, so that it deletes the row of its key")
	}
}

// finish fills up a row of a delete and reports whether the row is whole.
func (r *Row) finish() error {
	if r.err != nil {
		return r.err
	}
	if r.deletes && r.n >= r.t.Key {
		r.tuple = r.tuple[:r.keyEnd]
		for range len(r.t.Columns) - r.t.Key {
			r.tuple = appendNull(r.tuple)
		}
		return nil
	}
	if r.n != len(r.t.Columns) {
		return fmt.Errorf("the row has %d values for %d columns", r.n, len(r.t.Columns))
	}
	return nil
}

// key returns the bytes of the key's fields: equal keys have equal bytes.
func (r *Row) key() []byte { return r.tuple[2:r.keyEnd] }

// appendList writes an array of one dimension.
func (t *Type) appendList(dst []byte, each func(add func(expr.Value) error) error) ([]byte, error) {
	if !t.IsArray() {
		return dst, t.refuse(stream.List)
	}
	return field(dst, func(dst []byte) ([]byte, error) {
		at, n, nulls := len(dst), uint32(0), uint32(0)
		dst = appendArrayHead(dst, t.Elem.OID, 0)
		err := each(func(v expr.Value) (err error) {
			n++
			if v.IsNull() {
				nulls = 1
			}
			dst, err = t.Elem.Append(dst, v, false)
			return err
		})
		if n == 0 {
			return be.AppendUint32(append(dst[:at], 0, 0, 0, 0, 0, 0, 0, 0), t.Elem.OID), err // no dimensions
		}
		be.PutUint32(dst[at+4:], nulls)
		be.PutUint32(dst[at+12:], n)
		return dst, err
	})
}

// appendArrayHead writes the head of an array with one dimension of n elements, nulls
// among them or not: it may always say that there are.
func appendArrayHead(dst []byte, elem, n uint32) []byte {
	for _, v := range []uint32{1, 1, elem, n, 1} {
		dst = be.AppendUint32(dst, v)
	}
	return dst
}
