package keyed

import (
	"math/bits"
	"unsafe"
)

// An entry is a header, the key and the value, in one slot of a segment:
//
//	| epoch u32 | pos u32 | vlen u32 | klen u16 | class u8 | flags u8 | key | value | slack |
//
// Its address is counted in granules of 8 bytes from the start of the store's
// memory: 32 bits reach 32 GiB. Address 0 is no entry.
type header struct {
	// epoch is the one in which the entry was last changed; clean means that the
	// base has it as it is.
	epoch uint32
	// pos is the entry's place in the dirty list of its epoch, and the new
	// address of an entry that moved.
	pos   uint32
	vlen  uint32
	klen  uint16
	class uint8
	flags uint8
}

const (
	headerSize = 16
	granule    = 8
	maxKey     = 1<<16 - 1
	// maxValue bounds one value; the base tier takes batches of at most 4 GiB.
	maxValue = 1 << 30
)

// Flags of an entry.
const (
	live  = 1 << iota // has a value; without it the entry says that the key is absent
	hot               // used since the sweep's last visit
	moved             // the slot's entry lies at pos now
	free              // the slot holds no entry
)

// Epoch tags. Real epochs begin at firstEpoch, so that every comparison of the
// hot path is one of plain numbers.
const (
	clean      = 1 // as the base has it
	restored   = 2 // replayed from a checkpoint: not in the base
	firstEpoch = 3
)

// noPos is the position of an entry that is in no dirty list.
const noPos = 1<<32 - 1

func (h *header) key() []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(h), headerSize)), int(h.klen))
}

// value returns n bytes of value space.
func (h *header) value(n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(h), headerSize+int(h.klen))), n)
}

// is reports whether the entry's key is key.
func (h *header) is(key []byte) bool {
	return int(h.klen) == len(key) && string(h.key()) == string(key)
}

// bytes returns the header, key and value as they lie in memory.
func (h *header) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(h)), headerSize+int(h.klen)+int(h.vlen))
}

// slot returns n bytes of the slot.
func (h *header) slot(n int) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(h)), n) }

// touch reads the entry's first byte and one 39 further on: half of the small
// entries lie in two cache lines. It may read past the end of a slot, but not
// past the tail that every segment keeps.
func (h *header) touch() uint64 {
	return uint64(h.flags) + uint64(*(*uint8)(unsafe.Add(unsafe.Pointer(h), 39)))
}

// Size classes are multiples of 8 bytes up to 128, then eight to each doubling,
// so that slack is at most an eighth. Class 0 is a mapping of its own.
const (
	linearClasses = 16
	maxClass      = linearClasses + 8*13 // 1 MiB
)

// classOf returns the smallest class that holds n bytes, 0 if none does.
func classOf(n int) uint8 {
	g := (n + granule - 1) / granule
	if g <= linearClasses {
		return uint8(g)
	}
	k := bits.Len(uint(g-1)) - 1 // 1<<k < g <= 2<<k
	c := linearClasses + (k-4)*8 + (g-1<<k+(1<<k/8)-1)/(1<<k/8)
	if c > maxClass {
		return 0
	}
	return uint8(c)
}

// classSize holds the bytes of each class.
var classSize = func() (s [maxClass + 1]uint32) {
	for c := 1; c <= maxClass; c++ {
		if c <= linearClasses {
			s[c] = uint32(c * granule)
			continue
		}
		k := 4 + (c-linearClasses-1)/8
		s[c] = uint32(granule * (1<<k + ((c-linearClasses-1)%8+1)*(1<<k/8)))
	}
	return s
}()
