package keyed_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"

	"etl/state"
	"etl/state/keyed"
	"etl/stream"
)

// begin opens the subtasks of an attempt. With local, the bases of the attempt
// before are used again where they fit.
func (s *shop) begin(from published, parallelism int, local bool) {
	s.attempt++
	s.number, s.completed, s.open = 0, stream.NoCheckpoint, nil
	s.up = s.storage.Uploader(s.attempt)
	var bases []*ledge
	for _, f := range s.shelves {
		if local {
			bases = append(bases, f.ledge)
		}
	}
	s.shelves = nil
	for i := range parallelism {
		s.shelves = append(s.shelves, s.restored(from, stream.RangeOf(i, parallelism, groups), bases))
	}
}

// restart ends the attempt and begins another from a published checkpoint.
func (s *shop) restart() {
	for _, c := range s.open {
		for _, snap := range c.snaps {
			snap.Release(false)
		}
	}
	for _, f := range s.shelves {
		f.drop()
	}
	var from published
	if l := len(s.published); l > 0 {
		i := l - 1
		if s.pick("older", 4) == 0 {
			i = s.pick("published", l)
		}
		from, s.published = s.published[i], s.published[:i+1]
	}
	s.begin(from, 1+s.pick("parallelism", 2), s.pick("local", 2) == 0)
}

// restored opens a store of some key groups from a checkpoint, and compares it.
func (s *shop) restored(p published, r stream.KeyGroupRange, bases []*ledge) *shelf {
	chains, err := keyed.Chains("count", p.id, p.hs)
	s.must(err)
	part := keyed.Overlapping(chains, r)
	same := keyed.Same(part, r)
	l := &ledge{shop: s, groups: r, base: map[string][]byte{}, gens: map[uint32]map[string]spilled{}}
	done := l.fetch(part, same, bases)
	var names keyed.Names
	store, err := keyed.NewStore(keyed.Options{
		Spec:    state.Spec{Task: stream.TaskID{UID: "count"}, KeyGroups: r, MaxParallelism: groups, Descriptors: tables},
		Lineage: stream.Lineage{1}, Budget: keyed.NewBudget(1), Names: &names, Policy: keyed.Policy{Full: s.full, SegmentCount: 6, SegmentBytes: 1},
		Tier: l, Tiered: l.begun, Chain: same,
	})
	s.must(err)
	f := &shelf{shop: s, Store: store, groups: r, ledge: l, live: map[string]string{}, dirty: map[string]bool{}}
	if same != nil && done[0] > 0 {
		store.Pin(same.Segments[done[0]-1].To)
	}
	fill := &filling{shelf: f, next: state.Handle{To: p.id}}
	if same != nil && len(same.Segments) > 0 {
		fill.next = same.Segments[len(same.Segments)-1]
	}
	if same == nil && l.begun {
		fill.lower()
	}
	for i := range part {
		_, err := store.Replay(context.Background(), s.storage, part[i].Segments[done[i]:], fill)
		s.must(err)
	}
	if fill.end(); same == nil && l.begun {
		l.made = []copied{l.copy(stream.NoCheckpoint)} // chains begin on a new base
	}
	store.Begin(p.id)
	f.expect(p.want)
	f.compareAll()
	return f
}

// expect notes what of a checkpoint belongs to the shelf.
func (s *shelf) expect(want map[string]string) {
	for i := range shelfKeys {
		k := fmt.Sprint("key ", i)
		if !s.groups.Contains(stream.KeyGroupOf(stream.Hash([]byte(k)), groups)) {
			continue
		}
		s.keys = append(s.keys, k)
		for table := range tables {
			if v, ok := want[fmt.Sprint(table, k)]; ok {
				s.live[fmt.Sprint(table, k)] = v
			}
		}
	}
}

// fetch fills the base with what chains begin on: with the local one where it
// stands at the end of a segment, with the stored one otherwise. It returns how
// many segments of each chain the base has.
func (l *ledge) fetch(part []keyed.Chain, same *keyed.Chain, bases []*ledge) (done []int) {
	for i := range part {
		c, n, content := &part[i], 0, l.shop.copies[part[i].BaseName()]
		if len(c.Base) > 0 {
			l.begun, l.mark = true, state.Handle{To: c.BaseEnd()}
		}
		for _, b := range bases {
			if k, ok := b.has(c); ok && b.begun && b.groups == c.KeyGroups {
				n, content, l.begun, l.mark = k, b.base, true, b.mark
			}
		}
		for k, v := range content {
			if l.groups.Contains(stream.KeyGroup(binary.BigEndian.Uint16([]byte(k)))) {
				l.base[k] = v
			}
		}
		done = append(done, n)
	}
	return done
}

// filling takes the entries of a store that is being filled: into the cache, and
// into the base from when there is no room.
type filling struct {
	*shelf
	next    state.Handle
	lowered bool
}

func (f *filling) Put(ctx context.Context, entries []keyed.Replayed) error {
	if !f.lowered {
		if err := f.Store.Put(ctx, entries); err != nil || f.pick("room", 8) > 0 {
			return err
		}
		f.lower()
		return f.Drain(f.ledge.add)
	}
	for _, e := range entries {
		if err := f.ledge.add(keyed.Record{Live: e.Live, Key: f.AppendKey(nil, e.Table, e.Key), Value: e.Value}); err != nil {
			return err
		}
	}
	return nil
}

// lower makes what follows go to the base.
func (f *filling) lower() {
	f.lowered = true
	f.Lower()
	f.Pin(f.next.To)
}

func (f *filling) end() {
	if f.lowered {
		f.ledge.base = maps.Clone(f.ledge.base)
		f.ledge.mark, f.ledge.begun = f.next, true
	}
}
