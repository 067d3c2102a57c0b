package keyed

const (
	sweepFree = 64 << 10 // bytes freed for one batch, or twice what the last one took
	sweepWalk = 16       // bytes walked over for each of those, at most
	reserve   = 1 << 20  // free bytes that end the sweep of a table under pressure
)

// relief keeps a table within the memory budget. A hand walks over the slots of
// all segments and removes entries that the base has as they are; one that was
// used since the hand's last visit is spared once. Work is done at the begin of
// a batch, a little each time, so that no batch is slow.
type relief struct {
	pressed   bool  // the budget is nearly used up
	rest      int   // bytes to be taken before the next sweep, after one that freed nothing
	victimOff int   // how far the segment being emptied is
	published int64 // of unapplied, in the budget
	// underway is what unapplied was when the capture on its way began.
	underway int64
}

// relieve takes note of what reached the base and makes room if there is need.
func (t *table) relieve() error {
	s := t.store
	t.settleCapture()
	t.publish(t.unapplied + t.underway - t.published)
	m, took := t.store.Budget, t.handed
	t.handed = 0
	over := m.used.Load() + segSize - m.limit
	t.pressed = over > 0 && int64(t.bytes()) > m.limit/4/max(1, m.stores.Load())
	if !t.pressed || t.freeBytes >= reserve && over < 2*segSize {
		return nil
	}
	want := max(sweepFree, 2*took)
	if t.rest -= took; t.rest <= 0 {
		if freed := t.sweep(want, s.appliedEpoch); freed < want/8 {
			t.rest = reserve
		}
	}
	if over > m.limit/8+segSize && t.freeBytes < reserve {
		return t.spill(max(spillBytes, 2*took))
	}
	return nil
}

// publish adds to the process's count of bytes that may not leave memory.
func (t *table) publish(n int64) {
	if n != 0 {
		t.store.Budget.unapplied.Add(n)
		t.published += n
	}
}

// captureBegins notes that everything up to epoch is on its way to the base.
func (t *table) captureBegins(epoch uint32) {
	t.captured = epoch
	t.underway += t.unapplied
	t.unapplied = 0
}

// settleCapture notes the end of a capture. One that came to nothing leaves its
// entries to the next: they still have their epochs.
func (t *table) settleCapture() {
	s := t.store
	s.appliedEpoch = s.applied.Load()
	if t.captured != s.appliedEpoch {
		if s.capturing.Load() {
			return
		}
		// It may have been applied between the two loads: look again.
		if s.appliedEpoch = s.applied.Load(); t.captured != s.appliedEpoch {
			t.unapplied += t.underway
			t.captured = s.appliedEpoch
		}
	}
	if t.underway != 0 {
		t.underway, t.rest = 0, 0
	}
}

// round is one walk of the hand: it ends after so many bytes, or when the hand
// has been everywhere.
type round struct {
	walk, walked int
	laps         int
}

// step moves the hand to the next slot, past free ones, and returns the entry in
// it, or false at the end of the round.
func (t *table) step(r *round) (addr uint32, h *header, size int, ok bool) {
	for r.walked < r.walk {
		if t.handSeg >= len(t.segs) {
			t.handSeg, t.handOff = 0, 0
			if r.laps++; r.laps > 1 || len(t.segs) == 0 {
				return 0, nil, 0, false
			}
		}
		if t.handOff >= t.segs[t.handSeg].used {
			t.handSeg, t.handOff = t.handSeg+1, 0
			r.walked += 64
			continue
		}
		addr = uint32(t.handSeg)<<segShift | uint32(t.handOff/granule)
		h = t.at(addr)
		size = t.size(addr, h)
		t.handOff += size
		r.walked += size
		if h.flags&free == 0 {
			return addr, h, size, true
		}
	}
	return 0, nil, 0, false
}

// sweep moves the hand on until it has freed so many bytes or come far enough,
// and returns what it freed. What a snapshot in progress has yet to copy out stays,
// though the base has it by now: an older record of the key may lie in the scratch
// as the barrier froze it, and would be the newest in the segment.
func (t *table) sweep(want int, applied uint32) (freed int) {
	r := round{walk: sweepWalk * want}
	for freed < want {
		addr, h, size, ok := t.step(&r)
		if !ok {
			break
		}
		switch {
		case h.epoch > applied, t.wanted(addr, h):
		case h.flags&hot != 0:
			h.flags &^= hot
		default:
			t.evict(addr, h)
			freed += size
		}
	}
	return freed
}

// evict removes an entry that the base has as it is. If the table was complete
// it is no longer.
func (t *table) evict(addr uint32, h *header) {
	if h.flags&live != 0 {
		t.complete = false
	}
	t.unlink(addr, h)
	t.freeSlot(addr)
}
