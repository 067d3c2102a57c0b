package keyed

import (
	"etl/stream"
)

// adopt goes on with a restored chain.
func (s *Store) adopt(c *Chain) {
	if c == nil {
		return
	}
	if len(c.Base) > 0 {
		s.hist.base = &Base{Name: c.BaseName(), Handles: c.Base, To: c.BaseEnd()}
		for _, h := range c.Base {
			s.size += h.Size
		}
	} else if len(c.Segments) > 0 {
		s.size = c.Segments[0].Size
	}
	for _, h := range c.Segments {
		s.hist.links = append(s.hist.links, link{Handle: h})
	}
	s.last = s.hist.end()
}

// Begin ends the filling of a store restored at checkpoint id. A store that
// holds something and goes on with no chain, because the operator was rescaled,
// begins one with its first snapshot.
func (s *Store) Begin(id stream.CheckpointID) {
	s.last = max(s.last, id)
	for _, t := range s.tables {
		s.fresh = s.fresh || s.Chain == nil && t.n > 0
	}
	s.count()
}

// Drain calls f with all entries and forgets them: the base has them then. It
// belongs to the filling of a store, before Begin.
func (s *Store) Drain(f func(Record) error) error {
	for _, t := range s.tables {
		d := delta{mem: s.Budget}
		t.seal(clean, true, &d)
		for t.slice() {
			if err := s.give(&d, f); err != nil {
				return err
			}
		}
		if err := s.give(&d, f); err != nil {
			return err
		}
		t.clear()
	}
	s.Lower()
	return nil
}

// give passes what was copied out on to f.
func (s *Store) give(d *delta, f func(Record) error) error {
	sd := &sealed{delta: *d, tables: s.coders}
	err := sd.each(0, f)
	d.release()
	return err
}

// Lower says that the base has entries of the store.
func (s *Store) Lower() {
	s.tiered = true
	for _, t := range s.tables {
		t.complete = false
	}
}

// Pin keeps a segment's end in the chain: the base bears it as its mark.
func (s *Store) Pin(id stream.CheckpointID) {
	for i := range s.hist.links {
		s.hist.links[i].pinned = s.hist.links[i].pinned || s.hist.links[i].To == id
	}
}

// Small reports that the store has so little in memory that emptying it would
// make no room.
func (s *Store) Small() bool {
	n := int64(0)
	for _, t := range s.tables {
		n += int64(t.total)
	}
	return n < s.Budget.limit/8
}

// clear forgets all entries.
func (t *table) clear() {
	t.publish(-t.published)
	t.arena.reset()
	t.index.reset()
	t.index = newIndex(t.store.Budget)
	t.capture = capture{captured: t.captured}
	t.relief = relief{}
	t.dirty.clear()
	t.open = firstEpoch
}
