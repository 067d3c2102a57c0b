package sqltxn

import (
	"bytes"

	"etl/stream"
)

// A chunk is some rows of an epoch in their order, one frame each:
//
//	offset  size  field
//	0       4     length of all that follows
//	4       1     flags: 1 delete, 2 the record follows the tuple, 4 it was made of several
//	5       2     index of the topic
//	7       4     partition
//	11      8     offset
//	19      4     length of the tuple
//	23      ...   tuple: the row in the binary form of COPY
//	...     ...   the record it was made of (see record.go)
//
// With a key only the last row of each counts: an index leads from a key to its row, and
// the rows before are garbage.
type chunk struct {
	data   []byte
	live   []uint32 // offsets of the rows that count, in the order their keys first came
	hashes []uint64 // of their keys; with a key only
	index  []uint32 // open addressing by hash: 1 + position in live, 0 for free
	dead   int      // bytes of rows that do not count
	total  int      // rows in data, whether they count or not
	held   bool     // it counts against the memory of its subtask
	topics *[]string

	// A spilled chunk has these instead of data; live is empty then, unless there are rows
	// that do not count.
	file     *spillFile
	at       int64
	size     int
	rowCount int

	// load reads a chunk that lies in a log; nil for all others.
	load func() (data []byte, rows int, err error)
}

// bytes returns the size of the rows that count; of a spilled chunk, of all rows.
func (c *chunk) bytes() int64 {
	if c.file != nil {
		return int64(c.size)
	}
	return int64(len(c.data) - c.dead)
}

// rows returns the number of rows that count.
func (c *chunk) rows() int {
	if c.file != nil {
		return c.rowCount
	}
	return len(c.live)
}

const (
	frameHead  = 23
	flagDelete = 1
	flagRecord = 2
	flagMade   = 4
	// flags are all there are: segments of the write-ahead log hold frames, so a new one is
	// a new version of theirs (docs/formats/wal.md).
	flags = flagDelete | flagRecord | flagMade
)

// frame is one row as it lies in a chunk.
type frame []byte

func (f frame) deletes() bool   { return f[4]&flagDelete != 0 }
func (f frame) hasRecord() bool { return f[4]&flagRecord != 0 }
func (f frame) made() bool      { return f[4]&flagMade != 0 }
func (f frame) tuple() []byte   { return f[frameHead : frameHead+be.Uint32(f[19:])] }
func (f frame) record() []byte  { return f[frameHead+be.Uint32(f[19:]):] }

// place says where the row's record was read.
func (f frame) place(topics []string) (topic string, partition int32, offset int64) {
	return topics[be.Uint16(f[5:])], int32(be.Uint32(f[7:])), int64(be.Uint64(f[11:]))
}

// frameAt returns the frame that begins at an offset.
func frameAt(data []byte, at uint32) frame { return frame(data[at : at+4+be.Uint32(data[at:])]) }

// appendFrame adds a row to the end of data.
func appendFrame(data []byte, row *Row, topic uint16, rec *stream.Record, keep bool) []byte {
	at := len(data)
	var head [frameHead]byte
	if row.deletes {
		head[4] |= flagDelete
	}
	if keep {
		head[4] |= flagRecord
	}
	if rec.Made {
		head[4] |= flagMade
	}
	be.PutUint16(head[5:], topic)
	be.PutUint32(head[7:], uint32(rec.Partition))
	be.PutUint64(head[11:], uint64(rec.Offset))
	be.PutUint32(head[19:], uint32(len(row.tuple)))
	data = append(append(data, head[:]...), row.tuple...)
	if keep {
		data = appendRecord(data, rec.AsRead())
	}
	be.PutUint32(data[at:], uint32(len(data)-at-4))
	return data
}

// reserve makes room for n bytes more. It doubles what there is, up to size, for what is
// moved while a chunk grows is what its rows cost.
func (c *chunk) reserve(n, size int) {
	if cap(c.data)-len(c.data) >= n {
		return
	}
	data := make([]byte, len(c.data), max(min(2*cap(c.data), size), len(c.data)+n))
	copy(data, c.data)
	c.data = data
}

// add adds a row, which is the last of data, and that no other one replaces.
func (c *chunk) add(at int) {
	c.live = append(c.live, uint32(at))
	c.total++
}

// put adds a row, which is the last of data, in place of the one of the same key.
func (c *chunk) put(at int, key []byte) {
	if 4*len(c.live) >= 3*len(c.index) {
		c.grow()
	}
	hash := stream.Hash(key)
	slot := c.slot(key, hash)
	c.total++
	if n := c.index[slot]; n != 0 {
		c.dead += len(frameAt(c.data, c.live[n-1]))
		c.live[n-1] = uint32(at)
		return
	}
	c.live, c.hashes = append(c.live, uint32(at)), append(c.hashes, hash)
	c.index[slot] = uint32(len(c.live))
}

// slot returns where the key is in the index, or where it would be. A key is the
// beginning of its tuple, and its fields say their lengths, so that no key is the
// beginning of another one.
func (c *chunk) slot(key []byte, hash uint64) int {
	mask := len(c.index) - 1
	for i := int(hash) & mask; ; i = (i + 1) & mask {
		n := c.index[i]
		if n == 0 || c.hashes[n-1] == hash && bytes.HasPrefix(frameAt(c.data, c.live[n-1]).tuple()[2:], key) {
			return i
		}
	}
}

// grow doubles the index.
func (c *chunk) grow() {
	c.index = make([]uint32, max(2*len(c.index), 64))
	mask := len(c.index) - 1
	for n, hash := range c.hashes {
		i := int(hash) & mask
		for c.index[i] != 0 {
			i = (i + 1) & mask
		}
		c.index[i] = uint32(n + 1)
	}
}

// takeIndex takes the index of a chunk over, emptied.
func (c *chunk) takeIndex(from *chunk) {
	if cap(from.hashes) > cap(c.hashes) {
		c.hashes, c.index = from.hashes[:0], from.index
		clear(c.index)
	}
	from.hashes, from.index = nil, nil
}

// empty returns a chunk without rows in the memory of c.
func (c *chunk) empty() *chunk {
	clear(c.index)
	return &chunk{data: c.data[:0], live: c.live[:0], hashes: c.hashes[:0], index: c.index}
}

// compact moves the rows that count into fresh memory.
func (c *chunk) compact(into []byte) (old []byte) {
	old = c.data
	for i, at := range c.live {
		c.live[i] = uint32(len(into))
		into = append(into, frameAt(old, at)...)
	}
	c.data, c.dead, c.total = into, 0, len(c.live)
	return old
}
