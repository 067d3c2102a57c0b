package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"etl/expr"
	"etl/expr/jsondoc"
	"etl/stream"
)

// Encoder turns a record into a row: it gives the row its partitions and then either its
// line (json) or a value for each column. An error rejects the record.
type Encoder func(r *stream.Record, row *Row) error

// Row takes the parts of one row. The first thing that does not fit is remembered, and
// what follows is ignored.
type Row struct {
	cfg   *Config
	cells cells // nil for json
	place []byte
	parts int
	line  []byte
	asIs  bool // line is a record's value
	n     int  // columns so far
	err   error
}

// cells take the values of a row, one for each column.
type cells interface {
	reset()
	add(i int, v expr.Value) error
}

func (r *Row) reset() {
	r.place, r.parts, r.line, r.asIs, r.n, r.err = r.place[:0], 0, nil, false, 0, nil
	if r.cells != nil {
		r.cells.reset()
	}
}

// plainPlace is what stands unescaped in the name of a partition's directory. Its name
// and '=' come first, so that no value makes it "..".
const plainPlace = "-_."

// Partition gives the next partition its value: null, text, a number or a bool.
func (r *Row) Partition(v expr.Value) {
	switch {
	case r.err != nil:
		return
	case r.parts == len(r.cfg.PartitionBy):
		r.err = fmt.Errorf("the row has more than %d partitions", r.parts)
		return
	}
	name, at := r.cfg.PartitionBy[r.parts], len(r.place)
	r.parts++
	r.place = append(appendEscaped(r.place, name, plainPlace), '=')
	switch v.Kind() {
	case stream.Null:
		r.place = append(r.place, nullPartition...)
	case stream.List, stream.Object:
		r.err = fmt.Errorf("partition %s: a %s names no directory", name, v.Kind())
		return
	default:
		s, ok := v.Text()
		if !ok {
			s = string(v.AppendText(nil))
		}
		if s == nullPartition {
			r.err = fmt.Errorf("partition %s: the text is the one that stands for null", name)
			return
		}
		r.place = appendEscaped(r.place, s, plainPlace)
	}
	if n := len(r.place) - at; n > maxName {
		r.err = fmt.Errorf("partition %s: its directory's name would have %d bytes, and %d are possible", name, n, maxName)
		return
	}
	r.place = append(r.place, '/')
}

// JSON gives the row its document, which must be valid and stay until the row is
// written.
func (r *Row) JSON(doc []byte) { r.line = doc }

// Value gives the next column its value.
func (r *Row) Value(v expr.Value) {
	switch {
	case r.err != nil:
		return
	case r.n == len(r.cfg.Columns):
		r.err = fmt.Errorf("the row has more values than the %d columns", r.n)
		return
	}
	if err := r.cells.add(r.n, v); err != nil {
		r.err = fmt.Errorf("column %s: %w", r.cfg.Columns[r.n].Name, err)
	}
	r.n++
}

// finish checks that the row is whole.
func (r *Row) finish() error {
	switch {
	case r.err != nil:
		return r.err
	case r.parts < len(r.cfg.PartitionBy):
		return fmt.Errorf("the row has %d of %d partitions", r.parts, len(r.cfg.PartitionBy))
	case r.cells != nil && r.n < len(r.cfg.Columns):
		return fmt.Errorf("the row has %d values for %d columns", r.n, len(r.cfg.Columns))
	case r.cells == nil && len(r.line) == 0:
		return errors.New("an empty value is no document")
	case r.cells == nil && bytes.IndexByte(r.line, '\n') >= 0:
		return r.compact()
	}
	return nil
}

// compact takes the line ends out of a document: between its values, for in a string
// they are escaped.
func (r *Row) compact() error {
	var b bytes.Buffer
	if err := json.Compact(&b, r.line); err != nil {
		return err
	}
	r.line = b.Bytes()
	return nil
}

// Whole gives the row the record's value as it is, which the sink checks if no source
// has; null is the document null.
func (r *Row) Whole(rec *stream.Record) {
	r.asIs = rec.Value != nil
	r.line = rec.Value
	if !r.asIs {
		r.line = []byte("null")
	}
}

// check refuses what would break a file for its readers.
func (r *Row) check() error {
	if !r.asIs || r.err != nil {
		return r.err
	}
	return jsondoc.Check(r.line)
}
