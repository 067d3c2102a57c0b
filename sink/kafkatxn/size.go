package kafkatxn

import (
	"math/bits"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// batchOverhead is the header of a record batch, magic 2, behind its length on the
	// wire. kgo measures a batch with that length, which has up to 4 bytes, and a topic's
	// max.message.bytes without: a record within 4 bytes of the limit is refused.
	batchOverhead = 61 + 4
	// RecordOverhead is what a record in flight costs besides its bytes.
	RecordOverhead = 256
)

// AloneSize returns the size of a batch that holds nothing but r, before compression.
func AloneSize(r *kgo.Record) int {
	n := 1 + 1 + 1 // attributes, time delta 0, offset delta 0
	n += prefixed(len(r.Key), r.Key == nil) + prefixed(len(r.Value), r.Value == nil)
	n += varint(len(r.Headers))
	for i := range r.Headers {
		h := &r.Headers[i]
		n += prefixed(len(h.Key), false) + prefixed(len(h.Value), h.Value == nil)
	}
	return batchOverhead + varint(n) + n
}

// prefixed returns the length of bytes behind their length; null has length -1.
func prefixed(n int, null bool) int {
	if null {
		return 1
	}
	return varint(n) + n
}

// varint returns the length of n >= 0 as a zigzag varint.
func varint(n int) int { return (bits.Len64(uint64(n)<<1|1) + 6) / 7 }

// Cost is what r counts for against the limits of memory.
func Cost(r *kgo.Record) int64 {
	n := len(r.Key) + len(r.Value) + RecordOverhead
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return int64(n)
}
