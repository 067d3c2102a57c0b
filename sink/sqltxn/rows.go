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
	if err := r.room(); err != nil {
		return err
	}
	topic := r.topic(rec.Topic)
	write := func(data []byte) []byte { return appendFrame(data, row, topic, rec, r.keep) }
	if r.keyed {
		r.open.put(row.key(), write)
	} else {
		r.open.add(write)
	}
	return nil
}

// maxRow is far below what a frame or a message to the server can hold.
const maxRow = 256 << 20

// room makes sure that there is an open chunk which is not full. One of which half does
// not count any more is compacted instead of closed.
func (r *Rows) room() error {
	switch {
	case r.open == nil:
		r.open = &chunk{data: r.pool.take(), topics: &r.topics}
		return nil
	case len(r.open.data) < r.pool.chunkSize() && len(r.topics) < math.MaxUint16:
		return nil
	case r.open.dead >= len(r.open.data)/2 && !r.past:
		r.pool.give(r.open.compact(r.pool.take()))
		return nil
	}
	c := r.open
	r.open = nil
	c.index, c.hashes = nil, nil
	r.chunks = append(r.chunks, c)
	if err := r.pool.hold(r, c); err != nil {
		return err
	}
	return r.room()
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
	for _, c := range r.all() {
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
	for i, c := range r.all() {
		v := &view{data: c.data, rows: c.live, topics: *c.topics}
		if c.load != nil {
			data, n, err := c.load()
			if err != nil {
				return err
			}
			v.data, v.rows = data, walk(data, n)
		}
		if c.file != nil {
			var err error
			if loaded, err = c.file.load(loaded[:0], c.at, c.size); err != nil {
				return err
			}
			v.data = loaded
			if v.rows == nil {
				v.rows = walk(loaded, c.rowCount)
			}
		}
		if r.full {
			v.rows, v.full = walk(v.data, c.total), true
		}
		if err := f(i, v); err != nil {
			return err
		}
	}
	return nil
}

// walk returns the offsets of frames that lie one behind the other.
func walk(data []byte, n int) []uint32 {
	out := make([]uint32, 0, n)
	for at := uint32(0); int(at) < len(data); at += uint32(len(frameAt(data, at))) {
		out = append(out, at)
	}
	return out
}
