package keyed

import "etl/stream"

const (
	compactWalk = 256 << 10 // bytes of a segment emptied, for one batch
	compactFrom = 4 * segSize
)

// compact empties segments whose slots are mostly free, when so much is free
// that sizes must have changed: slots of one class are no use to another. It
// moves entries from one segment, a little for each batch, and gives the segment
// back. It rests while memory is being captured in the order of addresses.
func (t *table) compact() {
	if t.sealed != 0 && t.scan {
		return
	}
	if t.victim < 0 && !t.chooseVictim() {
		return
	}
	seg := &t.segs[t.victim]
	for walked := 0; walked < compactWalk; {
		if t.victimOff >= seg.used {
			i := uint32(t.victim)
			t.victim = -1
			t.drop(i)
			return
		}
		addr := uint32(t.victim)<<segShift | uint32(t.victimOff/granule)
		h := t.at(addr)
		n := t.size(addr, h)
		t.victimOff += n
		walked += n
		if h.flags&free == 0 {
			t.relocate(addr, h)
		}
	}
}

// chooseVictim picks the segment with the most free bytes, if at least half of
// it is free, and withdraws its free slots.
func (t *table) chooseVictim() bool {
	best := -1
	for i := 1; i < len(t.segs); i++ { // segment 0 keeps address 0 free
		s := &t.segs[i]
		if i != t.cur && !s.large && s.p != nil && s.free >= segSize/2 && (best < 0 || s.free > t.segs[best].free) {
			best = i
		}
	}
	if best < 0 {
		return false
	}
	t.victim, t.victimOff = best, 0
	t.freeBytes -= t.segs[best].free
	for c := range t.slots {
		keep := t.slots[c][:0]
		for _, addr := range t.slots[c] {
			if int(addr>>segShift) != best {
				keep = append(keep, addr)
			}
		}
		t.slots[c] = keep
	}
	return true
}

// relocate moves an entry when no Ref points at it.
func (t *table) relocate(addr uint32, h *header) {
	to, g := t.alloc(headerSize + int(h.klen) + int(h.vlen))
	class := g.class
	copy(g.slot(headerSize+int(h.klen)+int(h.vlen)), h.bytes())
	g.class = class
	t.index.replace(uint32(stream.Hash(h.key())), addr, to)
	switch {
	case h.epoch == t.open:
		t.dirty.set(h.pos, to)
	case h.epoch == t.sealed && !t.scan && t.awaits(addr, h):
		t.frozen.set(h.pos, to)
	}
	h.flags = free
}
