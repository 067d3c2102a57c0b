package pebbledb

import (
	"context"

	"github.com/cockroachdb/pebble/v2"

	"etl/internal/fault"
	"etl/state"
	"etl/state/keyed"
)

// Open implements state.Backend.
func (b *Backend) Open(ctx context.Context, spec state.Spec) (state.Store, error) {
	if spec.MaxParallelism == 0 {
		spec.MaxParallelism = b.cfg.MaxParallelism
	}
	part := keyed.Overlapping(b.chains[spec.Task.UID], spec.KeyGroups)
	same := keyed.Same(part, spec.KeyGroups)
	t := &tier{b: b, id: storeID{spec.Task.UID, spec.KeyGroups}}
	o := keyed.Options{
		Spec: spec, Lineage: b.cfg.Lineage, Budget: b.budget, Names: &b.names, Policy: b.cfg.Policy, Tier: t, Chain: same,
	}
	for i := range part {
		if _, ok := b.has[storeID{spec.Task.UID, part[i].KeyGroups}]; ok {
			t.inBase = true
		}
	}
	o.Tiered = t.inBase
	s, err := keyed.NewStore(o)
	if err != nil {
		return nil, err
	}
	t.store = s
	if n, ok := b.has[t.id]; ok && same != nil && n > 0 {
		s.Pin(same.Segments[n-1].To)
	}
	if err := b.fill(ctx, t, part, same); err != nil {
		_ = s.Close()
		return nil, err
	}
	s.Begin(b.restored.ID)
	b.mu.Lock()
	defer b.mu.Unlock()
	t.number = uint16(len(b.tiers))
	b.tiers = append(b.tiers, t)
	return s, nil
}

// fill replays the segments that the base does not have: into the cache while it
// has room, into the base otherwise. A rescaled store that has a part in the base
// gets all the rest there too, because its chain begins on a base of its own. So
// does one whose changes were being applied when the process died: a base that is
// stored must stand at one place.
func (b *Backend) fill(ctx context.Context, t *tier, part []keyed.Chain, same *keyed.Chain) error {
	f := &filler{b: b, t: t, moved: len(part) > 0 && same == nil}
	if same != nil && len(same.Segments) > 0 {
		f.next = b.markOf(same.Segments[len(same.Segments)-1])
	} else {
		f.next = mark{Lineage: b.cfg.Lineage, ID: b.restored.ID}
	}
	if f.moved && t.inBase || b.unfinished(t.id) {
		if err := f.lower(); err != nil {
			return err
		}
	}
	for i := range part {
		segments := part[i].Segments[b.has[storeID{t.id.uid, part[i].KeyGroups}]:]
		n, err := t.store.Replay(ctx, b.restored.Objects, segments, f)
		if err != nil {
			return err
		}
		b.counts.segments.Add(int64(len(segments)))
		b.counts.entries.Add(n)
	}
	fault.Point("K49-store-filled")
	return f.end()
}

// unfinished reports whether the base was left in the middle of a store's changes.
func (b *Backend) unfinished(id storeID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.base != nil && b.base.meta.marks[id].Next != nil
}

// filler takes the entries of a store that is being filled.
type filler struct {
	b     *Backend
	t     *tier
	moved bool // from other subtasks
	next  mark
	sink  *sink // nil while entries go to the cache
}

// Put implements keyed.Sink.
func (f *filler) Put(ctx context.Context, entries []keyed.Replayed) error {
	if f.sink != nil {
		return f.sink.Put(ctx, entries)
	}
	if err := f.t.store.Put(ctx, entries); err != nil {
		return err
	}
	if b := f.b.budget; b.Used() <= b.Limit()/4*3 || f.t.store.Small() {
		return nil
	}
	if err := f.lower(); err != nil {
		return err
	}
	return f.t.store.Drain(f.sink.w.add)
}

// lower makes what follows go to the base.
func (f *filler) lower() error {
	base, err := f.b.ensureBase()
	if err != nil {
		return err
	}
	if f.moved {
		f.t.moved = &f.next
		if err := f.b.move(base); err != nil {
			return err
		}
	}
	w, err := f.b.beginChange(base, f.t.id, f.next)
	if err != nil {
		return err
	}
	f.sink = &sink{w: w, store: f.t.store}
	f.t.inBase = true
	f.t.store.Lower()
	f.t.store.Pin(f.next.ID)
	return nil
}

// move notes in the base that key groups are being moved.
func (b *Backend) move(base *base) error {
	b.mu.Lock()
	b.anew = true
	b.mu.Unlock()
	return guard(func() error {
		batch := base.db.NewBatch()
		if err := setJSON(batch, movingKey, true); err != nil {
			return err
		}
		return batch.Commit(pebble.NoSync)
	})
}

func (f *filler) end() error {
	if f.sink == nil {
		return nil
	}
	if err := f.sink.w.end(); err != nil {
		return err
	}
	return f.b.flush(f.sink.w.base)
}
