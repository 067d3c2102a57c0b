package kafkatxn

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// stickyBytes is how much goes to one partition before rows without a key move on to
// the next: enough to fill a request, little enough to spread.
const stickyBytes = 64 << 10

// Partitioner chooses partitions as Java's clients do. It is one of the sink's and
// outlives its producers; the number of partitions is always the producer's own, so
// that it never names one the producer has not heard of yet.
type Partitioner struct {
	unkeyed atomic.Uint64 // bytes of rows without a key so far
	First   uint64        // where this subtask begins, so that subtasks spread
}

// ForTopic returns the partitioner itself.
func (p *Partitioner) ForTopic(string) kgo.TopicPartitioner { return p }

// RequiresConsistency keeps a key on its partition even while that has no leader. Rows
// without a key go where there is one.
func (p *Partitioner) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition >= 0 || r.Key != nil
}

// Partition returns the partition of r, among n. An empty key is a key.
func (p *Partitioner) Partition(r *kgo.Record, n int) int {
	switch {
	case r.Partition >= 0:
		return int(r.Partition) // kgo refuses it when there is no such partition
	case r.Key != nil:
		return int(murmur2(r.Key)&0x7fffffff) % n
	}
	turn := p.unkeyed.Add(uint64(len(r.Value))+RecordOverhead) / stickyBytes
	return int((turn + p.First) % uint64(n))
}

// murmur2 is the hash of Java's default partitioner: the 32-bit MurmurHash2 with the
// seed 0x9747b28c.
func murmur2(b []byte) uint32 {
	const m = 0x5bd1e995
	h := uint32(0x9747b28c) ^ uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		k := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
		k *= m
		k ^= k >> 24
		k *= m
		h *= m
		h ^= k
	}
	switch len(b) {
	case 3:
		h ^= uint32(b[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(b[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(b[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	h ^= h >> 15
	return h
}
