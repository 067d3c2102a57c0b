package keyed

import (
	"context"

	"etl/internal/invariant"
	"etl/state"
	"etl/stream"
)

// groupSize is how many keys are looked up together. 16 to 256 measure alike.
const groupSize = 64

// table is one keyed state of one subtask: the cache, and the only thing that
// the task goroutine touches per record.
type table struct {
	arena
	index
	capture

	open  uint32 // the epoch that changes belong to
	dirty list   // what was first changed in it
	// complete: every key that exists is in the table, so that a miss means
	// absent and never goes below.
	complete bool
	// hint is the room that new entries get for a value: the size of the last
	// new one, so that setting a new key does not move it.
	hint int
	// fresh are entries made for absent keys of the running batch; those that
	// are not set go at its end.
	fresh  []uint32
	misses []int // indexes in the running batch

	number uint8 // in the store, and in records copied out
	store  *Store
	keys   keyCoder
	relief
	loader loader
	walk   dirtyWalk
	sink   uint8 // keeps the compiler from dropping reads that only warm caches
}

// Batch implements state.Keyed.
func (t *table) Batch(ctx context.Context, keys [][]byte, hashes []uint64, refs []state.Ref) error {
	if err := t.begin(); err != nil {
		return err
	}
	for i := 0; i < len(keys); i += groupSize {
		n := min(i+groupSize, len(keys))
		if err := t.group(keys[i:n], hashes[i:n], refs[i:n]); err != nil {
			return err
		}
		if len(t.misses) > 0 {
			if err := t.load(ctx, keys[i:n], hashes[i:n], refs[i:n]); err != nil {
				return err
			}
		}
	}
	return nil
}

// group resolves up to groupSize keys. It goes over them three times, because
// memory answers many requests at once but only if they do not depend on each
// other: first all slots are asked for, then all entries, then all are compared.
func (t *table) group(keys [][]byte, hashes []uint64, refs []state.Ref) error {
	var at [groupSize]uint32
	t.touch(hashes, &at)
	for i, key := range keys {
		addr := at[i&(groupSize-1)]
		if addr == 0 || !t.at(addr).is(key) {
			var err error
			if addr, err = t.lookup(i, key, uint32(hashes[i])); err != nil {
				return err
			}
		} else if t.pressed {
			t.at(addr).flags |= hot
		}
		refs[i] = state.Ref{E: t, At: uint64(addr)}
	}
	return nil
}

// touch brings slots and entries into the processor's caches and gives the
// address of the first entry whose slot could be the key's.
func (t *table) touch(hashes []uint64, at *[groupSize]uint32) {
	var sum uint64
	for _, h := range hashes {
		x := uint32(h)
		sum += t.pageOf(x)[x&pageMask]
	}
	for i, h := range hashes {
		x := uint32(h)
		p, j := t.pageOf(x), x&pageMask
		s := p[j]
		for s != 0 && uint32(s>>32) != x {
			j = (j + 1) & pageMask
			s = p[j]
		}
		at[i&(groupSize-1)] = uint32(s)
		if s != 0 {
			sum += t.at(uint32(s)).touch()
		}
	}
	t.sink = uint8(sum)
}

// find returns the address of a key's entry, 0 when there is none.
func (t *table) find(key []byte, x uint32) uint32 {
	p := t.pageOf(x)
	for j := x & pageMask; p[j] != 0; j = (j + 1) & pageMask {
		if addr := uint32(p[j]); uint32(p[j]>>32) == x && t.at(addr).is(key) {
			return addr
		}
	}
	return 0
}

// lookup is the slow way of group: another entry shares the slot's bits, or the
// key is new, or it came earlier in the same batch.
func (t *table) lookup(i int, key []byte, x uint32) (uint32, error) {
	if addr := t.find(key, x); addr != 0 {
		return addr, nil
	}
	if len(key) > maxKey {
		return 0, stream.Errorf(stream.Failed, "state.key_too_long", "look up keyed state", t.store.name(),
			"a key has %d bytes, the most are %d", len(key), maxKey)
	}
	if !t.complete {
		t.misses = append(t.misses, i)
		return 0, nil
	}
	addr, err := t.insert(key, x, t.hint)
	t.fresh = append(t.fresh, addr)
	return addr, err
}

// insert makes a clean entry that says that the key is absent.
func (t *table) insert(key []byte, x uint32, room int) (uint32, error) {
	addr, h := t.alloc(headerSize + len(key) + room)
	h.epoch, h.pos, h.vlen, h.klen, h.flags = clean, 0, 0, uint16(len(key)), 0
	copy(h.key(), key)
	if !t.index.insert(x, addr) {
		t.freeSlot(addr)
		return 0, stream.Errorf(stream.Failed, "state.hash_collisions", "add a key to keyed state", t.store.name(),
			"more than %d keys have the same hash", pageSlots)
	}
	return addr, nil
}

// begin ends the batch before: its Refs are no longer valid.
func (t *table) begin() error {
	if t.store.failed != nil {
		return t.store.failed
	}
	if len(t.limbo) > 0 {
		t.settle()
	}
	if len(t.fresh) > 0 {
		t.dropFresh()
	}
	if t.store.tier != nil {
		if err := t.relieve(); err != nil {
			return err
		}
	}
	if t.victim >= 0 || t.freeBytes > compactFrom && (t.freeBytes > t.total/2 || t.pressed && t.freeBytes > t.total/8) {
		t.compact()
	}
	if t.full() {
		return stream.Errorf(stream.Failed, "state.subtask_too_large", "add a key to keyed state", t.store.name(),
			"the cache of one subtask reaches 32 GiB").WithFix("raise the operator's parallelism or lower the memory budget")
	}
	return nil
}

// dropFresh removes the entries that were made for keys that stayed absent.
func (t *table) dropFresh() {
	for _, addr := range t.fresh {
		if addr == 0 {
			continue // its insert failed
		}
		if h := t.at(addr); h.epoch == clean && h.flags&(live|moved|free) == 0 {
			t.unlink(addr, h)
			t.freeSlot(addr)
		}
	}
	t.fresh = t.fresh[:0]
}

func (t *table) unlink(addr uint32, h *header) {
	t.index.remove(uint32(stream.Hash(h.key())), addr)
}

// Get implements state.Entry.
func (t *table) Get(at uint64) (value []byte, ok bool) {
	h := t.at(uint32(at))
	if h.flags&moved != 0 {
		_, h = t.follow(uint32(at), h)
	}
	if h.flags&live == 0 {
		return nil, false
	}
	return h.value(int(h.vlen)), true
}

// Mutable implements state.Entry.
func (t *table) Mutable(at uint64, n int) []byte {
	addr := uint32(at)
	h := t.at(addr)
	if h.flags&moved != 0 {
		addr, h = t.follow(addr, h)
	}
	if h.epoch != t.open {
		t.change(addr, h)
	}
	if n != int(h.vlen) || h.flags&live == 0 {
		h = t.resize(addr, h, n)
	}
	return h.value(n)
}

// Delete implements state.Entry. The entry stays as a tombstone until all that
// lies below knows.
func (t *table) Delete(at uint64) {
	addr := uint32(at)
	h := t.at(addr)
	if h.flags&moved != 0 {
		addr, h = t.follow(addr, h)
	}
	if h.flags&live == 0 {
		return
	}
	if h.epoch != t.open {
		t.change(addr, h)
	}
	h.flags &^= live
	h.vlen = 0
}

// follow returns where a moved entry lies; the mark lasts for the batch.
func (t *table) follow(addr uint32, h *header) (uint32, *header) {
	for h.flags&moved != 0 {
		addr = h.pos
		h = t.at(addr)
	}
	return addr, h
}

// change is the first change of an entry in the open epoch: what a snapshot in
// progress still needs of it is copied out, then it becomes dirty.
func (t *table) change(addr uint32, h *header) {
	if t.wanted(addr, h) {
		t.copyOut(h)
		if !t.scan {
			t.frozen.set(h.pos, 0) // what lies at addr when its turn comes is another matter
		}
	}
	if h.epoch <= t.captured {
		t.unapplied += int64(t.size(addr, h))
	}
	h.epoch = t.open
	h.pos = t.dirty.push(addr)
}

// resize makes the value n bytes long, zero-extended; h is dirty already.
func (t *table) resize(addr uint32, h *header, n int) *header {
	invariant.Check(uint(n) <= maxValue, "a value of keyed state has %d bytes, the most are %d", n, maxValue)
	if h.flags&live == 0 {
		t.hint = min(n, 4096)
	}
	if n > t.room(addr, h) {
		was := t.size(addr, h)
		addr, h = t.move(addr, h, n)
		t.dirty.set(h.pos, addr)
		t.unapplied += int64(t.size(addr, h) - was)
	}
	if old := int(h.vlen); n > old {
		clear(h.value(n)[old:])
	}
	h.vlen = uint32(n)
	h.flags |= live
	return h
}

// move gives an entry a slot for a value of n bytes and leaves the mark that
// Refs of the running batch follow. The caller corrects lists.
func (t *table) move(addr uint32, h *header, n int) (uint32, *header) {
	to, g := t.alloc(headerSize + int(h.klen) + max(n, int(h.vlen)))
	class := g.class
	*g = *h
	g.class = class
	copy(g.key(), h.key())
	copy(g.value(int(h.vlen)), h.value(int(h.vlen)))
	t.index.replace(uint32(stream.Hash(h.key())), addr, to)
	h.flags |= moved
	h.pos = to
	t.retire(addr)
	return to, g
}
