package keyed

const (
	spillBytes = 256 << 10 // moved out of memory for one batch, or twice what the last one took
	spillWalk  = 16        // bytes walked over for each of those, at most
)

// spilled is what a store keeps in its scratch: entries that the base may not
// have yet, because no checkpoint with them is complete, and that memory has no
// room for. Rules that keep them exact:
//
//   - An entry in the cache is newer than one in the scratch, and a generation
//     newer than the one before. A record of an epoch that the base has counts
//     for nothing: the base may have a later one.
//   - A barrier freezes the scratch along with the dirty list; spilling after it
//     copies out first what the snapshot still needs.
//   - A capture begins a new generation, so that the older ones can be dropped
//     as a whole when the capture has reached the base.
type spilled struct {
	scratch Scratch
	gens    []generation
	nextGen uint32
}

type generation struct {
	id   uint32
	last uint32 // the highest epoch of a record in it
}

// spill moves entries to the scratch: some, so that the task is slowed down to
// the speed of the disk but never stops.
func (t *table) spill(want int) error {
	s := t.store
	if t.sealed != 0 && t.scan || t.walk.active {
		return nil
	}
	if s.scratch == nil {
		var err error
		if s.scratch, err = s.tier.Scratch(); err != nil {
			return err
		}
	}
	if len(s.gens) == 0 {
		s.beginGeneration()
	}
	n := int64(0)
	err := s.scratch.Put(s.gens[len(s.gens)-1].id, func(add func(Record) error) (err error) {
		n, err = t.sweepOut(want, add)
		return err
	})
	if s.Counters != nil {
		s.Counters.Spilled.Add(n)
	}
	return err
}

func (s *Store) beginGeneration() {
	s.nextGen++
	s.gens = append(s.gens, generation{id: s.nextGen})
}

// sweepOut moves the hand on as sweep does, and spills what it may not evict.
func (t *table) sweepOut(want int, add func(Record) error) (n int64, err error) {
	gen := &t.store.gens[len(t.store.gens)-1]
	r := round{walk: spillWalk * want}
	var key []byte
	for freed := 0; freed < want; {
		addr, h, size, ok := t.step(&r)
		if !ok {
			break
		}
		if h.flags&hot != 0 {
			h.flags &^= hot
			continue
		}
		if freed += size; h.epoch <= t.store.appliedEpoch {
			t.evict(addr, h)
			continue
		}
		key = t.keys.append(key[:0], t.keys.group(h.key()), h.key())
		if err := add(Record{Epoch: h.epoch, Live: h.flags&live != 0, Key: key, Value: h.value(int(h.vlen))}); err != nil {
			return n, err
		}
		gen.last = max(gen.last, h.epoch)
		t.leave(addr, h, size)
		n++
	}
	return n, nil
}

// leave takes a spilled entry out of the table and its list.
func (t *table) leave(addr uint32, h *header, size int) {
	switch {
	case h.epoch == t.open:
		t.dirty.set(h.pos, 0)
		t.walk.spilled = true
	case h.epoch == t.sealed && t.awaits(addr, h):
		t.copyOut(h)
		t.frozen.set(h.pos, 0)
	}
	t.holds(h.epoch, -size)
	t.complete = false
	t.unlink(addr, h)
	t.freeSlot(addr)
}

// holds counts bytes of an entry that the base does not have.
func (t *table) holds(epoch uint32, bytes int) {
	if epoch > t.captured {
		t.unapplied += int64(bytes)
	} else {
		t.underway += int64(bytes)
	}
}

// freezeScratch gives a sealed epoch the view of the scratch that belongs to it.
func (s *Store) freezeScratch(sd *sealed) (err error) {
	s.dropGenerations()
	if len(s.gens) == 0 {
		return nil
	}
	if last := s.gens[len(s.gens)-1].last; sd.kind == deltaOnly && !sd.offer && last < sd.epoch {
		return nil // nothing of this epoch was spilled
	}
	if sd.view, err = s.scratch.View(s.generations()); err != nil {
		return err
	}
	if sd.offer {
		s.beginGeneration()
	}
	return nil
}

// dropGenerations deletes those that the base has in full.
func (s *Store) dropGenerations() {
	applied := s.applied.Load()
	for len(s.gens) > 0 && s.gens[0].last <= applied && (len(s.gens) > 1 || s.gens[0].last > 0) {
		// An error costs disk space until the scratch is deleted as a whole.
		_ = s.scratch.Drop(s.gens[0].id)
		s.gens = s.gens[1:]
	}
}

func (s *Store) generations() []uint32 {
	ids := make([]uint32, len(s.gens))
	for i, g := range s.gens {
		ids[i] = g.id
	}
	return ids
}

// drain copies the records of a view with an epoch after lo into d.
func (p *sealed) drain(lo uint32, d *delta) error {
	return p.view.Each(nil, func(r Record) error {
		if r.Epoch <= lo || r.Epoch > p.epoch {
			return nil
		}
		return d.addRecord(r, p.tables)
	})
}

// each calls f with everything that was captured after lo.
func (p *sealed) each(lo uint32, f func(Record) error) (err error) {
	if p.view != nil {
		err = p.view.Each(nil, func(r Record) error {
			if r.Epoch <= lo || r.Epoch > p.epoch {
				return nil
			}
			return f(r)
		})
	}
	var key []byte
	p.delta.each(func(h *header) {
		if err != nil {
			return
		}
		c := p.tables[h.class]
		key = c.append(key[:0], c.group(h.key()), h.key())
		err = f(Record{Epoch: h.epoch, Live: h.flags&live != 0, Key: key, Value: h.value(int(h.vlen))})
	})
	return err
}
