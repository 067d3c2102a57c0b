package verify

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"etl/stream"
)

// hasher condenses a row to 64 bits: key, value and headers, null told from empty,
// the order of headers kept. The time is compared beside it, because a topic may be
// set to replace it.
type hasher struct{ buf []byte }

func (h *hasher) row(key, value []byte, headers []stream.Header) uint64 {
	b := appendField(h.buf[:0], key)
	b = appendField(b, value)
	for i := range headers {
		b = appendField(b, []byte(headers[i].Key))
		b = appendField(b, headers[i].Value)
	}
	h.buf = b
	return xxhash.Sum64(b)
}

// appendField appends a length, 0 for null, and the bytes: no two rows run together
// to the same text.
func appendField(b, p []byte) []byte {
	if p == nil {
		return append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(len(p))+1)
	return append(b, p...)
}

// mix spreads the bits of n: for sums that do not depend on order, and for a row
// with its time.
func mix(n uint64) uint64 {
	n ^= n >> 30
	n *= 0xbf58476d1ce4e5b9
	n ^= n >> 27
	n *= 0x94d049bb133111eb
	return n ^ n>>31
}

// murmur2 is the hash by which Java's clients choose a partition, seed 0x9747b28c.
func murmur2(p []byte) uint32 {
	const m = 0x5bd1e995
	h := uint32(0x9747b28c) ^ uint32(len(p))
	for ; len(p) >= 4; p = p[4:] {
		k := binary.LittleEndian.Uint32(p) * m
		h = h*m ^ (k^k>>24)*m
	}
	for i := len(p) - 1; i >= 0; i-- {
		h ^= uint32(p[i]) << (8 * i)
	}
	if len(p) > 0 {
		h *= m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}

// arena is a list that never moves its elements: millions of small ones without
// copying them when it grows.
type arena[T any] struct {
	chunks [][]T
	n      int32
}

const arenaChunk = 1 << 14

func (a *arena[T]) add(v T) int32 {
	if int(a.n)%arenaChunk == 0 {
		a.chunks = append(a.chunks, make([]T, 0, arenaChunk))
	}
	last := &a.chunks[len(a.chunks)-1]
	*last = append(*last, v)
	a.n++
	return a.n - 1
}

func (a *arena[T]) at(i int32) *T { return &a.chunks[i/arenaChunk][i%arenaChunk] }

// readField reads what appendField wrote.
func readField(b []byte) (p, rest []byte) {
	n, size := binary.Uvarint(b)
	if n == 0 {
		return nil, b[size:]
	}
	b = b[size:]
	return b[:n-1], b[n-1:]
}
