package sqltxn

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"etl/internal/pgconn"
)

// batchRows and batchBytes bound one statement of an upsert.
const (
	batchRows  = 8192
	batchBytes = 4 << 20
	// maxParams is how many parameters a statement may have.
	maxParams = 65535
)

// Write writes an epoch's rows into the target, in the transaction that is open on c. skip
// are the rows, by chunk and position, that were found bad.
func (g *Target) Write(ctx context.Context, c *pgconn.Conn, rows *Rows, skip Bad) error {
	w := g.writer()
	w.arrays = spareArrays.Get().(*arrays)
	defer w.arrays.free()
	return rows.each(func(i int, v *view) error { return w.write(ctx, c, v, 0, len(v.rows), skip[i]) })
}

// arrays are the rows of a statement: what batches of upserts, a few each second, would
// leave to the collector.
type arrays struct {
	rows   []frame
	values [][]byte // a parameter for each column
}

func (a *arrays) free() {
	clear(a.rows[:cap(a.rows)]) // they hold chunks
	spareArrays.Put(a)
}

var spareArrays = sync.Pool{New: func() any { return new(arrays) }}

// targetWriter writes rows into the target itself.
type targetWriter struct {
	*arrays
	g     *Target
	copy  string
	types []uint32
}

func (g *Target) writer() *targetWriter {
	w := &targetWriter{arrays: new(arrays), g: g, copy: "COPY " + g.Table.String() + " (" + quoted(g.Columns) + ") FROM STDIN (FORMAT binary)"}
	for _, c := range g.Columns {
		w.types = append(w.types, c.Type.Array)
	}
	return w
}

// write writes rows lo to hi of a chunk.
func (w *targetWriter) write(ctx context.Context, c *pgconn.Conn, v *view, lo, hi int, skip map[int]error) error {
	if w.g.Mode == Append {
		r := &copyReader{v: v, at: lo, end: hi, skip: skip}
		n, err := c.CopyIn(ctx, w.copy, r)
		return counted(n, r.sent, err)
	}
	for lo < hi {
		next, err := w.batch(ctx, c, v, lo, hi, skip)
		if err != nil {
			return err
		}
		lo = next
	}
	return nil
}

// counted demands that the server took as many rows as were sent.
func counted(got, sent int64, err error) error {
	if err == nil && got != sent {
		return fmt.Errorf("the server took %d of %d rows", got, sent)
	}
	return err
}

// batch writes some rows, all of one kind, upserts or deletes, and returns where the next
// batch begins. Within a chunk a key has one row, so their order does not matter, but
// keeping it costs nothing: a run of one kind is as long as it is. Where replaced rows
// count, a batch ends before a key that is in it already.
func (w *targetWriter) batch(ctx context.Context, c *pgconn.Conn, v *view, lo, hi int, skip map[int]error) (next int, err error) {
	rows := w.rows[:0]
	size, deletes := 0, v.frame(lo).deletes()
	limit, keys := w.limit(), seen{}
	for next = lo; next < hi && len(rows) < limit && size < batchBytes; next++ {
		f := v.frame(next)
		if f.deletes() != deletes || v.full && skip[next] == nil && keys.again(f, w.g.Key) {
			break
		}
		if skip[next] == nil {
			rows = append(rows, f)
			size += len(f.tuple())
		}
	}
	if w.rows = rows; len(rows) == 0 {
		return next, nil
	}
	if deletes {
		return next, w.delete(ctx, c, rows)
	}
	return next, w.upsert(ctx, c, rows)
}

// flat reports whether columns can travel as arrays of their values: unnest would take
// arrays of arrays apart.
func (w *targetWriter) flat() bool {
	for _, c := range w.g.Columns {
		if c.Type.IsArray() {
			return false
		}
	}
	return true
}

func (w *targetWriter) limit() int {
	if w.flat() {
		return batchRows
	}
	return min(batchRows, maxParams/len(w.g.Columns))
}

func (w *targetWriter) upsert(ctx context.Context, c *pgconn.Conn, rows []frame) error {
	head := "INSERT INTO " + w.g.Table.String() + " AS t (" + quoted(w.g.Columns) + ") "
	if !w.flat() {
		return w.upsertValues(ctx, c, head, rows)
	}
	w.transpose(rows, len(w.g.Columns))
	_, err := c.Binary(ctx, head+"SELECT * FROM unnest("+placeholders(len(w.g.Columns))+")"+w.g.conflict(), w.values, w.types)
	return err
}

// delete removes rows by key.
func (w *targetWriter) delete(ctx context.Context, c *pgconn.Conn, rows []frame) error {
	w.transpose(rows, w.g.Key)
	sql := "DELETE FROM " + w.g.Table.String() + " AS t USING unnest(" + placeholders(w.g.Key) + ") AS d (" + quoted(w.g.Columns[:w.g.Key]) + ") WHERE " + w.g.same("t", "d")
	_, err := c.Binary(ctx, sql, w.values[:w.g.Key], w.types[:w.g.Key])
	return err
}

// transpose makes an array of each of the first n columns. Fields are copied as they are:
// the elements of a binary array have the form of fields.
func (w *targetWriter) transpose(rows []frame, n int) {
	w.values = slices.Grow(w.values[:0], n)[:n]
	for i := range n {
		w.values[i] = appendArrayHead(w.values[i][:0], w.g.Columns[i].Type.OID, uint32(len(rows)))
	}
	for _, f := range rows {
		t := f.tuple()[2:]
		for i := range n {
			end := fieldsEnd(t, 1)
			w.values[i] = append(w.values[i], t[:end]...)
			t = t[end:]
		}
	}
}

// upsertValues is for targets with arrays among their columns.
func (w *targetWriter) upsertValues(ctx context.Context, c *pgconn.Conn, head string, rows []frame) error {
	n := len(w.g.Columns)
	values, types := make([][]byte, 0, n*len(rows)), make([]uint32, 0, n*len(rows))
	var sql strings.Builder
	sql.WriteString(head + "VALUES ")
	for i, f := range rows {
		sql.WriteString([]string{"(", ", ("}[min(i, 1)])
		t := f.tuple()[2:]
		for k, col := range w.g.Columns {
			fmt.Fprintf(&sql, "%s$%d", []string{"", ", "}[min(k, 1)], len(values)+1)
			end := fieldsEnd(t, 1)
			var value []byte
			if be.Uint32(t) != nullField {
				value = t[4:end:end]
			}
			values, types = append(values, value), append(types, col.Type.OID)
			t = t[end:]
		}
		sql.WriteString(")")
	}
	_, err := c.Binary(ctx, sql.String()+w.g.conflict(), values, types)
	return err
}

func placeholders(n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf("$%d", i+1)
	}
	return strings.Join(parts, ", ")
}

// copyReader gives rows of a chunk in the binary form of COPY. before, if there is one,
// appends the fields that come before those of the tuple, of which there are extra.
type copyReader struct {
	v       *view
	at, end int
	skip    map[int]error
	extra   int
	before  func(dst []byte, i int, f frame) []byte

	begun, ended bool
	rest         [2][]byte // what is to be given next
	scratch      []byte
	sent         int64
}

var (
	copyHead = append([]byte("PGCOPY\n\xff\r\n\x00"), 0, 0, 0, 0, 0, 0, 0, 0)
	copyTail = []byte{0xff, 0xff}
)

// Read fills p.
func (r *copyReader) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(r.rest[0])+len(r.rest[1]) == 0 && !r.next() {
			return n, io.EOF
		}
		for i := range r.rest {
			k := copy(p[n:], r.rest[i])
			r.rest[i] = r.rest[i][k:]
			n += k
		}
	}
	return n, nil
}

// next moves to the next piece.
func (r *copyReader) next() bool {
	if !r.begun {
		r.begun, r.rest[0] = true, copyHead
		return true
	}
	for r.at < r.end {
		i := r.at
		r.at++
		if r.skip[i] != nil {
			continue
		}
		f := r.v.frame(i)
		t := f.tuple()
		r.sent++
		if r.before == nil {
			r.rest[0] = t
			return true
		}
		r.scratch = be.AppendUint16(r.scratch[:0], be.Uint16(t)+uint16(r.extra))
		r.scratch = r.before(r.scratch, i, f)
		r.rest = [2][]byte{r.scratch, t[2:]}
		return true
	}
	if r.ended {
		return false
	}
	r.ended, r.rest[0] = true, copyTail
	return true
}

// fieldsEnd returns where the n-th field of a tuple ends.
func fieldsEnd(t []byte, n int) (end int) {
	for range n {
		size := be.Uint32(t[end:])
		end += 4
		if size != nullField {
			end += int(size)
		}
	}
	return end
}
