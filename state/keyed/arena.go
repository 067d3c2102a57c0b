package keyed

import (
	"unsafe"

	"etl/internal/invariant"
)

const (
	segShift   = 19 // granules of a segment, as a power of two
	segMask    = 1<<segShift - 1
	maxSegs    = 1 << (32 - segShift)
	firstGrain = 2  // the first slot of segment 0 is never at address 0
	segTail    = 64 // bytes at the end of a segment that are in no slot
)

// segment is a run of slots, all of which carry a header with a class, up to
// used. It can be walked in the order of addresses whatever happened to the
// entries in it.
type segment struct {
	block
	used  int // bytes handed out
	free  int // bytes of those in free slots
	large bool
}

// arena hands out the slots of one table.
type arena struct {
	mem  *Budget
	ptrs []unsafe.Pointer // of segs, apart for the hot path
	segs []segment
	gaps []uint32 // indexes of segs that were given back
	cur  int      // the segment that new slots are cut from, -1 for none
	// slots are free ones by class; freeBytes is their sum, and limbo those that
	// wait until no Ref can point at them.
	slots     [maxClass + 1][]uint32
	freeBytes int
	limbo     []uint32
	total     int // bytes of all segments
	handed    int // bytes of the slots handed out since relief looked last
	// victim is the segment that is being emptied, -1 for none: its free slots
	// are not handed out.
	victim int
	// The hand of the sweep stands before a slot of a segment. The place of one that
	// is given back is taken by another, whose slots begin elsewhere.
	handSeg, handOff int
}

func newArena(mem *Budget) arena { return arena{mem: mem, cur: -1, victim: -1} }

// at returns the entry at an address.
func (a *arena) at(addr uint32) *header {
	return (*header)(unsafe.Add(a.ptrs[addr>>segShift], uintptr(addr&segMask)*granule))
}

// alloc returns a slot of size bytes or more. Its contents are undefined but
// for the class.
func (a *arena) alloc(size int) (uint32, *header) {
	a.handed += size
	c := classOf(size)
	if c == 0 {
		return a.allocLarge(size)
	}
	if l := len(a.slots[c]); l > 0 {
		addr := a.slots[c][l-1]
		a.slots[c] = a.slots[c][:l-1]
		a.freeBytes -= int(classSize[c])
		a.segs[addr>>segShift].free -= int(classSize[c])
		return addr, a.at(addr)
	}
	n := int(classSize[c])
	if a.cur < 0 || a.segs[a.cur].used+n > segSize-segTail {
		a.cur = a.add(segment{block: a.mem.block(segSize)})
	}
	s := &a.segs[a.cur]
	addr := uint32(a.cur)<<segShift | uint32(s.used/granule)
	s.used += n
	h := a.at(addr)
	h.class = c
	return addr, h
}

func (a *arena) allocLarge(size int) (uint32, *header) {
	if len(a.segs) == 0 { // keep address 0 free
		a.cur = a.add(segment{block: a.mem.block(segSize)})
	}
	i := a.add(segment{block: a.mem.block(size), large: true})
	a.segs[i].used = a.segs[i].n
	addr := uint32(i) << segShift
	h := a.at(addr)
	h.class = 0
	return addr, h
}

// add puts a segment at a free index and returns it.
func (a *arena) add(s segment) int {
	a.total += s.n
	if l := len(a.gaps); l > 0 {
		i := int(a.gaps[l-1])
		a.gaps = a.gaps[:l-1]
		a.segs[i], a.ptrs[i] = s, s.p
		return i
	}
	invariant.Check(len(a.segs) < maxSegs, "a subtask's keyed cache has more than %d segments", maxSegs)
	if len(a.segs) == 0 {
		s.used = firstGrain * granule
		(*header)(s.p).class, (*header)(s.p).flags = firstGrain, free
	}
	a.segs, a.ptrs = append(a.segs, s), append(a.ptrs, s.p)
	return len(a.segs) - 1
}

// full reports that so little address space is left that no batch is started.
func (a *arena) full() bool { return len(a.segs)-len(a.gaps) > maxSegs-64 }

// size returns the bytes of an entry's slot.
func (a *arena) size(addr uint32, h *header) int {
	if h.class == 0 {
		return a.segs[addr>>segShift].n
	}
	return int(classSize[h.class])
}

// room returns how long the entry's value may grow in its slot.
func (a *arena) room(addr uint32, h *header) int {
	return a.size(addr, h) - headerSize - int(h.klen)
}

// retire frees a slot as soon as no Ref of the running batch can point at it.
func (a *arena) retire(addr uint32) { a.limbo = append(a.limbo, addr) }

// settle frees what was retired.
func (a *arena) settle() {
	for _, addr := range a.limbo {
		a.freeSlot(addr)
	}
	a.limbo = a.limbo[:0]
}

func (a *arena) freeSlot(addr uint32) {
	h := a.at(addr)
	if h.class == 0 {
		a.drop(addr >> segShift)
		return
	}
	h.flags = free
	if int(addr>>segShift) == a.victim {
		return
	}
	n := int(classSize[h.class])
	a.slots[h.class] = append(a.slots[h.class], addr)
	a.freeBytes += n
	a.segs[addr>>segShift].free += n
}

// drop gives a segment back.
func (a *arena) drop(i uint32) {
	a.total -= a.segs[i].n
	a.mem.release(a.segs[i].block)
	a.segs[i], a.ptrs[i] = segment{}, nil
	a.gaps = append(a.gaps, i)
	if a.cur == int(i) {
		a.cur = -1
	}
	if a.handSeg == int(i) {
		a.handOff = 0
	}
}

// reset gives all memory back.
func (a *arena) reset() {
	for i := range a.segs {
		if a.segs[i].p != nil {
			a.mem.release(a.segs[i].block)
		}
	}
	*a = newArena(a.mem)
}
