package keyed

import (
	"slices"

	"etl/internal/fault"
	"etl/internal/invariant"
	"etl/state"
	"etl/stream"
)

// sealed is a sealed epoch: what a snapshot has to persist.
type sealed struct {
	id    stream.CheckpointID
	epoch uint32
	lo    uint32
	kind  snapshotKind
	offer bool // the capture goes to the base, too
	delta delta
	view  ScratchView
	// tables makes full keys for the records in delta.
	tables []keyCoder
	done   chan struct{} // closed when the copy-out has ended

	early   *delta // what of view belongs to the segment
	segment state.Handle
	// in is the snapshot whose segment has the changes, NoCheckpoint for none.
	in       stream.CheckpointID
	released bool
	before   history // of the store, for the case that the segment does not count
	sizeWas  int64
}

// snapshotKind says what the segment of a snapshot holds.
type snapshotKind uint8

const (
	deltaOnly snapshotKind = iota // what changed in one epoch
	sinceBase                     // what changed after the base
	everything
)

// Snapshot implements state.Store: B4, the quick part. It swaps lists.
func (s *Store) Snapshot(id stream.CheckpointID) (state.Snapshot, error) {
	fault.Point("K08-snapshot")
	if s.failed != nil {
		return nil, s.failed
	}
	for s.copy != nil { // I7: the copy-out of n ends before the freeze of n+1
		if _, err := s.Slice(); err != nil {
			return nil, err
		}
	}
	invariant.Check(id > s.last, "I1: snapshot %s after %s", id, s.last)
	s.last = id
	sd := &sealed{id: id, epoch: s.cur, done: make(chan struct{}), delta: delta{mem: s.Budget}, tables: s.coders}
	s.plan(sd)
	if err := s.freezeScratch(sd); err != nil {
		return nil, err
	}
	if s.tier != nil {
		s.tier.Sealed(id)
	}
	for _, t := range s.tables {
		t.seal(sd.lo, sd.kind != deltaOnly || sd.offer, &sd.delta)
		if sd.offer {
			t.captureBegins(sd.epoch)
		}
	}
	s.cur++
	s.copy = sd
	s.count()
	s.mu.Lock()
	s.pending = append(s.pending, sd)
	s.mu.Unlock()
	if s.idle() {
		_, err := s.Slice()
		return &snapshot{s, sd}, err
	}
	return &snapshot{s, sd}, nil
}

// idle reports that a copy-out has nothing to do.
func (s *Store) idle() bool {
	for _, t := range s.tables {
		if t.scan || t.frozen.n > 0 {
			return false
		}
	}
	return true
}

// plan decides what the sealed epoch's snapshot consists of.
func (s *Store) plan(sd *sealed) {
	s.mu.Lock()
	hist, size := s.hist, s.size
	s.mu.Unlock()
	sd.lo = sd.epoch - 1
	if s.tier != nil && !s.capturing.Load() && s.tier.Wants(Use{ID: sd.id, Unapplied: s.unapplied(), Since: hist.since}) {
		s.capturing.Store(true)
		sd.offer, s.tiered = true, true
		sd.lo = s.applied.Load()
	}
	switch {
	case s.complete() && !s.tiered:
		if s.fresh || s.Policy.Full || s.wantsFull(hist, size) {
			sd.kind, sd.lo = everything, 0
		}
	case s.Policy.Full || s.fresh:
		// A store that was rescaled in memory and had to spill before its first
		// snapshot has nothing in the base: this is everything, too.
		sd.kind, sd.lo = sinceBase, s.applied.Load()
	}
	s.fresh = false
}

// wantsFull reports whether a chain, which begins with a full segment of size
// bytes, should begin anew with another one.
func (s *Store) wantsFull(h history, size int64) bool {
	if s.Policy.Base && s.tier != nil || len(h.links) == 0 {
		return false
	}
	bytes, count := h.since(h.links[0].To)
	return s.Policy.Long(size, bytes, count)
}

// complete reports whether all keys of all tables are in memory.
func (s *Store) complete() bool {
	return !slices.ContainsFunc(s.tables, func(t *table) bool { return !t.complete })
}

func (s *Store) unapplied() (n int64) {
	for _, t := range s.tables {
		n += t.unapplied
	}
	return n
}

// Slice implements state.Store.
func (s *Store) Slice() (more bool, err error) {
	if s.copy == nil {
		return false, nil
	}
	for _, t := range s.tables {
		if t.slice() {
			return true, nil
		}
	}
	fault.Point("K08-copied-out")
	close(s.copy.done)
	s.copy = nil
	s.count()
	return false, nil
}

// free gives the memory of a sealed epoch back.
func (sd *sealed) free() {
	sd.delta.release()
	if sd.early != nil {
		sd.early.release()
	}
	if sd.view != nil {
		_ = sd.view.Close()
		sd.view = nil
	}
}
