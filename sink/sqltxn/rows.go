package sqltxn

import (
	"math"
	"slices"

	"etl/stream"
)

// Rows are the rows of one epoch of one subtask, kept until their checkpoint is
// published. They are in chunks; within a chunk a key has one row, and a later chunk's
// row of a key counts more than an earlier one's.
//
// Until they are sealed the task goroutine owns them, afterwards whoever finishes the
// epoch.
type Rows struct {
	pool   *Memory
	keyed  bool
	keep   bool // the records, too
	past   bool // rows that a later one of their key replaces, too; see KeepReplaced
	full   bool // they count; see Restore
	chunks []*chunk
	open   *chunk
	topics []string
	spill  *spillFile
}

// NewRows returns an empty epoch. keyed reduces it to the last row per key; keepRecords
// keeps the records that rows were made of, for dead letters.
func NewRows(m *Memory, keyed, keepRecords bool) *Rows {
	return &Rows{pool: m, keyed: keyed, keep: keepRecords}
}

// Len returns the number of rows; a key that came in several chunks counts several times.
func (r *Rows) Len() (n int) {
	for _, c := range r.all() {
		if r.full {
			n += c.total
			continue
		}
		n += c.rows()
	}
	return n
}

// Bytes returns the size of the rows that count, in memory and on disk.
func (r *Rows) Bytes() (n int64) {
	for _, c := range r.chunks {
		n += c.bytes()
	}
	if r.open != nil {
		n += r.open.bytes()
	}
	return n
}

// Reduced reports whether no key has more than one row.
func (r *Rows) Reduced() bool { return len(r.all()) <= 1 && !r.full }

func (r *Rows) all() []*chunk {
	if r.open == nil {
		return r.chunks
	}
	return append(slices.Clip(r.chunks), r.open)
}

// Add adds the row that was made of a record.
func (r *Rows) Add(row *Row, rec *stream.Record) error {
	if err := row.finish(); err != nil {
		return err
	}
	if len(row.tuple)+len(rec.Value)+len(rec.Key) > maxRow {
		return stream.Errorf(stream.Failed, "postgres.row_too_large", "write row", "", "the row has %d bytes, more than the %d a row may have", len(row.tuple), maxRow)
	}
	size := frameHead + len(row.tuple)
	if r.keep {
		size += len(rec.Key) + len(rec.Value) // and a little more
	}
	if err := r.room(size); err != nil {
		return err
	}
	c := r.open
	c.reserve(size, r.pool.chunkSize())
	at := len(c.data)
	c.data = appendFrame(c.data, row, r.topic(rec.Topic), rec, r.keep)
	if r.keyed {
		c.put(at, row.key())
	} else {
		c.add(at)
	}
	return nil
}

// maxRow is far below what a frame or a message to the server can hold.
const maxRow = 256 << 20

// room makes sure that there is an open chunk which has room for size bytes more. One of
// which half does not count any more is compacted instead of closed.
func (r *Rows) room(size int) error {
	switch c := r.open; {
	case c == nil:
		r.open = r.pool.take(len(r.chunks) > 0)
		r.open.topics = &r.topics
		return nil
	case (len(c.data) == 0 || len(c.data)+size <= r.pool.chunkSize()) && len(r.topics) < math.MaxUint16:
		return nil
	case c.dead >= len(c.data)/2 && !r.past:
		spare := r.pool.take(true)
		spare.data = c.compact(spare.data)
		r.pool.give(spare)
		return nil
	}
	return r.close()
}

// close closes the open chunk and opens another one, which takes over the index: a closed
// one needs it no more.
func (r *Rows) close() error {
	c := r.open
	r.open = r.pool.take(true)
	r.open.topics = &r.topics
	r.open.takeIndex(c)
	r.chunks = append(r.chunks, c)
	return r.pool.hold(r, c)
}

// topic returns the index of a topic.
func (r *Rows) topic(name string) uint16 {
	for i := len(r.topics) - 1; i >= 0; i-- {
		if r.topics[i] == name {
			return uint16(i)
		}
	}
	r.topics = append(r.topics, name)
	return uint16(len(r.topics) - 1)
}

// Join puts the rows of a later epoch behind those of r; later is empty afterwards.
func (r *Rows) Join(later *Rows) *Rows {
	out := &Rows{pool: r.pool, keyed: r.keyed, keep: r.keep, past: r.past, full: r.full || later.full, chunks: append(slices.Clone(r.all()), later.all()...)}
	r.chunks, r.open, later.chunks, later.open = nil, nil, nil, nil
	return out
}

// Free gives the memory back.
func (r *Rows) Free() {
	all, bytes := r.all(), int64(0)
	for _, c := range all {
		bytes += int64(cap(c.data))
	}
	r.pool.expect(bytes)
	for _, c := range all {
		r.pool.free(c)
	}
	r.chunks, r.open = nil, nil
}

// view is a chunk in memory.
type view struct {
	data   []byte
	rows   []uint32 // offsets
	topics []string
	full   bool // a key may have several rows
}

func (v *view) frame(i int) frame { return frameAt(v.data, v.rows[i]) }

// each calls f with every chunk in order. What f is given is valid until it returns.
func (r *Rows) each(f func(i int, v *view) error) error {
	var loaded []byte
	var offsets []uint32
	for i, c := range r.all() {
		v := &view{data: c.data, rows: c.live, topics: *c.topics}
		if c.load != nil {
			data, n, err := c.load()
			if err != nil {
				return err
			}
			offsets = walk(offsets[:0], data, n)
			v.data, v.rows = data, offsets
		}
		if c.file != nil {
			var err error
			if loaded, err = c.file.load(loaded[:0], c.at, c.size); err != nil {
				return err
			}
			v.data = loaded
			if v.rows == nil {
				offsets = walk(offsets[:0], loaded, c.rowCount)
				v.rows = offsets
			}
		}
		if r.full {
			offsets = walk(offsets[:0], v.data, c.total)
			v.rows, v.full = offsets, true
		}
		if err := f(i, v); err != nil {
			return err
		}
	}
	return nil
}

// walk appends the offsets of n frames that lie one behind the other.
func walk(out []uint32, data []byte, n int) []uint32 {
	out = slices.Grow(out, n)
	for at := uint32(0); int(at) < len(data); at += uint32(len(frameAt(data, at))) {
		out = append(out, at)
	}
	return out
}
