package keyed

import (
	"bytes"
	"context"
	"errors"

	"etl/state"
	"etl/stream"
)

// loader holds the buffers of load.
type loader struct {
	buf  []byte
	full [][]byte
	at   []int // index in the group of each full key
	done []bool
}

// load brings the keys that missed into the cache, all of a group at once: from
// the scratch, else from the base, else as absent, so that the next miss of the
// same key costs nothing.
func (t *table) load(ctx context.Context, keys [][]byte, hashes []uint64, refs []state.Ref) error {
	s, l := t.store, &t.loader
	l.prepare(t, keys)
	insert := func(i int, epoch uint32, alive bool, value []byte) error {
		l.done[i] = true
		j := l.at[i]
		addr, err := t.admit(keys[j], uint32(hashes[j]), l.full[i], epoch, alive, value)
		refs[j] = state.Ref{E: t, At: uint64(addr)}
		return err
	}
	if len(s.gens) > 0 {
		err := s.scratch.Get(ctx, s.generations(), l.full, func(i int, r Record) error {
			if r.Epoch <= s.appliedEpoch {
				return nil
			}
			return insert(i, r.Epoch, r.Live, r.Value)
		})
		if err != nil {
			return err
		}
		l.compact()
	}
	if s.tiered && len(l.full) > 0 {
		err := s.tier.Lookup(ctx, l.full, func(i int, envelope []byte) error {
			value, err := openEnvelope(envelope)
			if err != nil {
				return stream.Errorf(stream.Restart, "state.corrupt", "read keyed state", s.name(), "%w", err)
			}
			return insert(i, clean, true, value)
		})
		if err != nil {
			return err
		}
	}
	for i := range l.full {
		if !l.done[i] {
			if err := insert(i, clean, false, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// prepare makes the full keys of what missed.
func (l *loader) prepare(t *table, keys [][]byte) {
	l.buf, l.full, l.at, l.done = l.buf[:0], l.full[:0], l.at[:0], l.done[:0]
	for _, i := range t.misses {
		start := len(l.buf)
		l.buf = t.keys.append(l.buf, t.keys.group(keys[i]), keys[i])
		l.full = append(l.full, l.buf[start:len(l.buf):len(l.buf)])
		l.at, l.done = append(l.at, i), append(l.done, false)
	}
	t.misses = t.misses[:0]
}

// compact drops what was found.
func (l *loader) compact() {
	n := 0
	for i := range l.full {
		if !l.done[i] {
			l.full[n], l.at[n] = l.full[i], l.at[i]
			n++
		}
	}
	l.full, l.at = l.full[:n], l.at[:n]
	l.done = l.done[:n]
	clear(l.done)
}

// admit makes the entry of a key that was read from below; the same key may
// have come earlier in the batch.
func (t *table) admit(key []byte, x uint32, full []byte, epoch uint32, alive bool, value []byte) (uint32, error) {
	if addr := t.find(key, x); addr != 0 {
		return addr, nil
	}
	room := len(value)
	if !alive {
		room = t.hint
	}
	addr, err := t.insert(key, x, room)
	if err != nil {
		return 0, err
	}
	h := t.at(addr)
	h.epoch, h.pos = epoch, noPos // of a sealed epoch, the snapshot has it from the scratch
	if alive {
		h.flags |= live
		h.vlen = uint32(copy(h.value(len(value)), value))
	}
	if epoch > t.store.appliedEpoch {
		t.holds(epoch, t.size(addr, h))
	}
	if epoch == t.open {
		h.pos = t.dirty.push(addr)
		t.walk.readmit(full, h.pos)
	}
	return addr, nil
}

// scratchPhase is where positions of a walk over dirty entries in the scratch
// begin; those in the dirty list lie below.
const scratchPhase = 1 << 40

// dirtyWalk is the state of a walk over the dirty entries of the open epoch:
// first the list, then those that were spilled. Nothing is spilled during it.
type dirtyWalk struct {
	spilled bool // entries of the open epoch lie in the scratch
	active  bool
	list    int    // position in the list
	after   []byte // the last key visited in the scratch
	count   int
	skip    map[uint32]bool // in the list, but visited in the scratch
}

// readmit notes a dirty entry that came back from the scratch during a walk.
func (w *dirtyWalk) readmit(full []byte, pos uint32) {
	if w.active && w.after != nil && bytes.Compare(full, w.after) <= 0 {
		if w.skip == nil {
			w.skip = map[uint32]bool{}
		}
		w.skip[pos] = true
	}
}

// Dirty implements state.Keyed.
func (t *table) Dirty(pos int, f func(key, value []byte, ok bool) bool) (next int, more bool) {
	w := &t.walk
	if pos == 0 {
		*w = dirtyWalk{spilled: w.spilled}
	}
	w.active = true
	if pos < scratchPhase {
		w.list = pos
	}
	for w.list < t.dirty.n {
		if w.list%groupSize == 0 {
			t.touchDirty(w.list, min(w.list+groupSize, t.dirty.n))
		}
		addr := t.dirty.get(uint32(w.list))
		skip := addr == 0 || w.skip[uint32(w.list)]
		w.list++
		if skip {
			continue
		}
		h := t.at(addr)
		if !f(h.key(), h.value(int(h.vlen)), h.flags&live != 0) {
			return max(w.list, pos), true
		}
	}
	if w.spilled && !t.dirtyScratch(f) {
		return scratchPhase + w.count, true
	}
	w.active = false
	return max(w.list, pos), false
}

func (t *table) touchDirty(from, to int) {
	var sum uint64
	for i := from; i < to; i++ {
		if addr := t.dirty.get(uint32(i)); addr != 0 {
			sum += t.at(addr).touch()
		}
	}
	t.sink = uint8(sum)
}

// dirtyScratch goes on with a walk in the scratch, false if f stopped it.
func (t *table) dirtyScratch(f func(key, value []byte, ok bool) bool) (done bool) {
	s, w := t.store, &t.walk
	view, err := s.scratch.View([]uint32{s.gens[len(s.gens)-1].id})
	if err != nil {
		s.failed = err
		return true
	}
	defer view.Close()
	var buf []byte
	err = view.Each(w.after, func(r Record) error {
		_, state, key, err := splitKey(r.Key, buf)
		if err != nil || state != t.keys.state || r.Epoch != t.open {
			return err
		}
		w.after = append(w.after[:0], r.Key...)
		if addr := t.find(key, uint32(stream.Hash(key))); addr != 0 && t.at(addr).epoch == t.open {
			return nil // it came back and is in the list
		}
		w.count++
		if !f(key, r.Value, r.Live) {
			return errStop
		}
		return nil
	})
	if errors.Is(err, errStop) {
		return false
	}
	s.failed = err
	return true
}

var errStop = errors.New("stopped")
