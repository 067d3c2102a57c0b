package keyed

import (
	"slices"
	"unsafe"
)

const (
	sliceEntries = 512       // of a dirty list, for one slice
	sliceBytes   = 128 << 10 // copied out or walked, for one slice
)

// capture is the copy-out of a sealed epoch from one table. Entries with
// lo < epoch <= sealed are copied to out as they were at the barrier: by the
// task in slices, and by a change that comes first (the pre-image). It goes
// along the sealed epoch's dirty list, or, when more than one epoch is wanted,
// along all memory in the order of addresses: an entry that moves or is made
// meanwhile has a later epoch by then.
type capture struct {
	lo, sealed uint32 // sealed is 0 when nothing is copied out
	scan       bool
	frozen     list
	next       uint32 // position in frozen
	seg        int    // of the walk along memory
	off        int
	out        *delta

	// captured is the last epoch of which a copy is on its way to the base, or
	// there already.
	captured uint32
	// unapplied are the bytes of entries changed after it.
	unapplied int64
}

// seal begins the capture of the open epoch and opens the next. It is the whole
// work of a barrier and does not depend on the number of entries.
func (t *table) seal(lo uint32, scan bool, out *delta) {
	t.frozen, t.dirty = t.dirty, t.frozen
	t.dirty.clear()
	t.lo, t.sealed, t.scan, t.out = lo, t.open, scan, out
	t.next, t.seg, t.off = 0, 0, 0
	t.walk = dirtyWalk{}
	t.open++
}

// wanted reports whether a snapshot in progress still needs the entry as it is now.
func (t *table) wanted(addr uint32, h *header) bool {
	return h.epoch <= t.sealed && h.epoch > t.lo && t.awaits(addr, h)
}

// awaits reports whether an entry of the captured epochs was not reached yet.
func (t *table) awaits(addr uint32, h *header) bool {
	if !t.scan {
		return h.pos >= t.next && h.pos != noPos
	}
	seg := int(addr >> segShift)
	return seg > t.seg || seg == t.seg && int(addr&segMask)*granule >= t.off
}

// copyOut copies an entry as it is now. A capture that begins at nothing needs
// no word of what is absent.
func (t *table) copyOut(h *header) {
	if h.flags&live != 0 || t.lo > 0 {
		t.out.add(h, t.number)
	}
}

// slice goes on with the capture for a bounded number of entries and bytes.
func (t *table) slice() (more bool) {
	if t.sealed == 0 {
		return false
	}
	if t.scan {
		more = t.sliceMemory()
	} else {
		more = t.sliceList()
	}
	if !more {
		t.sealed = 0
		t.out = nil
	}
	return more
}

func (t *table) sliceList() (more bool) {
	end := min(t.next+sliceEntries, uint32(t.frozen.n))
	limit := t.out.bytes + sliceBytes
	for t.next < end && t.out.bytes < limit {
		n := min(t.next+groupSize, end)
		t.touchList(t.next, n)
		for ; t.next < n; t.next++ {
			addr := t.frozen.get(t.next)
			if addr == 0 {
				continue
			}
			if h := t.at(addr); h.epoch == t.sealed {
				t.copyOut(h)
				t.bury(addr, h)
			}
		}
	}
	return t.next < uint32(t.frozen.n)
}

func (t *table) touchList(from, to uint32) {
	var sum uint64
	for i := from; i < to; i++ {
		if addr := t.frozen.get(i); addr != 0 {
			sum += t.at(addr).touch()
		}
	}
	t.sink = uint8(sum)
}

// sliceMemory walks along the slots of all segments.
func (t *table) sliceMemory() (more bool) {
	copied, walked := t.out.bytes+sliceBytes, 0
	for t.seg < len(t.segs) {
		s := &t.segs[t.seg]
		for t.off < s.used {
			if walked >= 2*sliceBytes || t.out.bytes >= copied {
				return true
			}
			addr := uint32(t.seg)<<segShift | uint32(t.off/granule)
			h := t.at(addr)
			n := t.size(addr, h)
			if h.flags&(free|moved) == 0 && h.epoch <= t.sealed && h.epoch > t.lo {
				t.copyOut(h)
				t.bury(addr, h)
			}
			t.off += n
			walked += n
		}
		t.seg, t.off = t.seg+1, 0
		walked += 64
	}
	return false
}

// bury removes a tombstone that was copied out, if nothing lies below that it
// must hide. No Ref points at it: they end with a slice.
func (t *table) bury(addr uint32, h *header) {
	if h.flags&live == 0 && h.epoch > clean && t.complete && !t.store.tiered {
		t.unlink(addr, h)
		t.freeSlot(addr)
	}
}

// delta is what was copied out of the tables of a store: records of a header,
// a key and a value, padded to 8 bytes, as they lie in memory. Each key of a
// table is in it at most once. The class of a record's header is the number of
// its table.
type delta struct {
	mem     *Budget
	chunks  [][]byte
	entries int
	bytes   int
}

// add adds a copy of an entry.
func (d *delta) add(h *header, number uint8) {
	b := h.bytes()
	c := d.space(len(b))
	copy(c, b)
	(*header)(unsafe.Pointer(&c[0])).class = number
}

// addRecord adds a record whose key is a full one.
func (d *delta) addRecord(r Record, tables []keyCoder) error {
	_, state, key, err := splitKey(r.Key, nil)
	if err != nil {
		return err
	}
	number := slices.IndexFunc(tables, func(c keyCoder) bool { return c.state == state })
	if number < 0 {
		return nil
	}
	h := (*header)(unsafe.Pointer(&d.space(headerSize + len(key) + len(r.Value))[0]))
	*h = header{epoch: r.Epoch, klen: uint16(len(key)), vlen: uint32(len(r.Value)), class: uint8(number)}
	if r.Live {
		h.flags = live
	}
	copy(h.key(), key)
	copy(h.value(len(r.Value)), r.Value)
	return nil
}

// space returns the bytes of a new record of n.
func (d *delta) space(n int) []byte {
	n = (n + 7) &^ 7
	l := len(d.chunks)
	if l == 0 || len(d.chunks[l-1])+n > cap(d.chunks[l-1]) {
		d.chunks = append(d.chunks, d.mem.chunk(n))
		l++
	}
	c := d.chunks[l-1]
	off := len(c)
	d.chunks[l-1] = c[:off+n]
	d.entries++
	d.bytes += n
	return d.chunks[l-1][off:]
}

// each calls f for every record, in the order in which they were copied out.
func (d *delta) each(f func(h *header)) {
	for _, c := range d.chunks {
		for off := 0; off < len(c); {
			h := (*header)(unsafe.Pointer(&c[off]))
			f(h)
			off += (headerSize + int(h.klen) + int(h.vlen) + 7) &^ 7
		}
	}
}

// release gives the chunks back.
func (d *delta) release() {
	d.mem.recycle(d.chunks)
	*d = delta{mem: d.mem}
}
