package stream

import "hash/crc32"

// DefaultMaxParallelism is the number of key groups of a job that does not say
// otherwise. It is fixed in the first checkpoint for the life of the job.
const DefaultMaxParallelism = 128

// KeyGroup is the unit in which keyed state is stored, moved and rescaled.
type KeyGroup uint16

// KeyGroupRange is the half-open range [From, To) of key groups of a subtask.
type KeyGroupRange struct {
	From KeyGroup `json:"from"`
	To   KeyGroup `json:"to"`
}

// Contains reports whether g lies in the range.
func (r KeyGroupRange) Contains(g KeyGroup) bool { return r.From <= g && g < r.To }

// Len returns the number of key groups in the range.
func (r KeyGroupRange) Len() int { return int(r.To) - int(r.From) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Hash returns the hash of a key. Key groups and output partitions of keyed
// edges follow from it, so it must never change: it is CRC-32C finished by the
// 64-bit mixer of MurmurHash3. CRC-32C is one instruction per eight bytes, and
// the mixer spreads it over the bits that index tables use.
func Hash(key []byte) uint64 {
	x := uint64(crc32.Checksum(key, castagnoli)) | uint64(len(key))<<32
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return x
}

// KeyGroupOf returns the key group of a hash under a maximum parallelism.
func KeyGroupOf(hash uint64, maxParallelism int) KeyGroup {
	return KeyGroup((hash >> 32 * uint64(maxParallelism)) >> 32)
}

// SubtaskOf returns the subtask that owns g: the inverse of [RangeOf].
func SubtaskOf(g KeyGroup, parallelism, maxParallelism int) int {
	return int(g) * parallelism / maxParallelism
}

// RangeOf returns the key groups of one subtask: contiguous, covering
// [0, maxParallelism) over all subtasks, sizes differing by at most one.
func RangeOf(subtask, parallelism, maxParallelism int) KeyGroupRange {
	up := func(s int) KeyGroup { return KeyGroup((s*maxParallelism + parallelism - 1) / parallelism) }
	return KeyGroupRange{From: up(subtask), To: up(subtask + 1)}
}
