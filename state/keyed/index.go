package keyed

import (
	"unsafe"

	"etl/internal/invariant"
)

const (
	pageBits  = 14
	pageSlots = 1 << pageBits
	pageMask  = pageSlots - 1
	pageBytes = pageSlots * 8
	pageFill  = pageSlots / 4 * 3 // entries at which a page is split
	maxDepth  = 18                // pages * 12288 entries: more than addresses
)

// page is an open addressing table of slots: the low half of the hash and the
// address of the entry, 0 for empty. A page never grows: it is split in two.
type page [pageSlots]uint64

func slotOf(x, addr uint32) uint64 { return uint64(x)<<32 | uint64(addr) }

// index finds the entry of a key: extendible hashing over pages of 128 KiB, so
// that growing costs a fraction of a millisecond at any size and never twice the
// memory. The upper bits of the hash's low half choose the page, the lower ones
// the slot in it: the high half of a hash chooses its key group, so that it is
// much the same for all keys of a subtask. Because a slot holds all bits that
// were used, nothing but a lookup ever touches entries.
type index struct {
	mem   *Budget
	dir   []*page
	meta  []*pageMeta // of the page with the same index in dir
	shift uint8       // 32 - log2(len(dir))
	n     int         // entries
	spare []*page
	held  []block
}

// pageMeta is kept apart from the slots, which fill whole memory pages.
type pageMeta struct {
	n     int
	depth uint8
}

func newIndex(mem *Budget) index {
	x := index{mem: mem, shift: 31}
	p, m := x.page(), &pageMeta{}
	x.dir, x.meta = []*page{p, p}, []*pageMeta{m, m} // two names spare the hot path a case
	return x
}

// page returns an empty page. Pages are cut from blocks, for huge pages' sake.
func (x *index) page() *page {
	if len(x.spare) == 0 {
		b := x.mem.block(hugePage)
		x.held = append(x.held, b)
		for off := hugePage - pageBytes; off >= 0; off -= pageBytes {
			x.spare = append(x.spare, (*page)(unsafe.Add(b.p, off)))
		}
	}
	p := x.spare[len(x.spare)-1]
	x.spare = x.spare[:len(x.spare)-1]
	return p
}

func (x *index) pageOf(h uint32) *page { return x.dir[h>>(x.shift&31)] }

// insert adds a slot for a key that is not in the index. It reports false when
// more keys than a page holds have the same low half of their hashes.
func (x *index) insert(h, addr uint32) bool {
	m := x.meta[h>>(x.shift&31)]
	for m.n >= pageFill && m.depth < maxDepth {
		x.split(h)
		m = x.meta[h>>(x.shift&31)]
	}
	if m.n == pageSlots-1 {
		return false
	}
	m.n++
	x.n++
	x.pageOf(h).put(h, addr)
	return true
}

func (p *page) put(h, addr uint32) {
	i := h & pageMask
	for p[i] != 0 {
		i = (i + 1) & pageMask
	}
	p[i] = slotOf(h, addr)
}

// split gives the two halves of the entries of h's page pages of their own.
func (x *index) split(h uint32) {
	p, m := x.pageOf(h), x.meta[h>>(x.shift&31)]
	if 32-x.shift == m.depth {
		x.double()
	}
	bit := uint32(1) << (31 - m.depth)
	var half [2]*page
	var meta [2]*pageMeta
	for i := range half {
		half[i], meta[i] = x.page(), &pageMeta{depth: m.depth + 1}
	}
	for _, s := range p {
		if s != 0 {
			i := 0
			if uint32(s>>32)&bit != 0 {
				i = 1
			}
			half[i].put(uint32(s>>32), uint32(s))
			meta[i].n++
		}
	}
	// The page's names in dir are those that share the first depth bits with h.
	names := 1 << (32 - x.shift - m.depth)
	first := int(uint64(h)>>(32-m.depth)) * names
	for i := range names {
		x.dir[first+i], x.meta[first+i] = half[i*2/names], meta[i*2/names]
	}
	clear(p[:])
	x.spare = append(x.spare, p)
}

func (x *index) double() {
	dir, meta := make([]*page, 0, 2*len(x.dir)), make([]*pageMeta, 0, 2*len(x.dir))
	for i, p := range x.dir {
		dir, meta = append(dir, p, p), append(meta, x.meta[i], x.meta[i])
	}
	x.dir, x.meta = dir, meta
	x.shift--
}

// slot returns where the slot of an entry lies.
func (x *index) slot(h, addr uint32) (*page, uint32) {
	p := x.pageOf(h)
	for i, n := h&pageMask, 0; ; i, n = (i+1)&pageMask, n+1 {
		if p[i] == slotOf(h, addr) {
			return p, i
		}
		invariant.Check(p[i] != 0 && n < pageSlots, "an entry of the keyed cache is not in its index")
	}
}

// replace makes the slot of an entry point to its new address.
func (x *index) replace(h, old, addr uint32) {
	p, i := x.slot(h, old)
	p[i] = slotOf(h, addr)
}

// remove takes an entry's slot out and closes the gap, so that no tombstones
// pile up: the slots behind it move up unless they are in or before their place.
func (x *index) remove(h, addr uint32) {
	p, i := x.slot(h, addr)
	for j := i; ; {
		j = (j + 1) & pageMask
		s := p[j]
		if s == 0 {
			break
		}
		home := uint32(s>>32) & pageMask
		if (j-home)&pageMask >= (j-i)&pageMask {
			p[i] = s
			i = j
		}
	}
	p[i] = 0
	x.meta[h>>(x.shift&31)].n--
	x.n--
}

// reset gives all memory back; the index must not be used again.
func (x *index) reset() {
	for _, b := range x.held {
		x.mem.release(b)
	}
	*x = index{}
}
