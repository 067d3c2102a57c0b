package keyed_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"etl/state"
	"etl/state/keyed"
	"etl/state/statetest"
	"etl/stream"
)

// ledge is a Tier of maps. A real one works in the background, so that a test of
// it meets an order of events by luck; here the test says when a capture reaches
// the base, and what it found comes again with its seed.
type ledge struct {
	base    map[string][]byte // envelopes by full key
	mark    stream.CheckpointID
	offers  []*keyed.Capture
	capture bool                          // what Wants says
	full    bool                          // chains begin on a copy of the base
	copies  map[string]map[string][]byte  // by name of a base
	gens    map[uint32]map[string]spilled // the scratch
	spilled int
}

type spilled struct {
	epoch uint32
	live  bool
	value []byte
}

func (l *ledge) Sealed(stream.CheckpointID)      {}
func (l *ledge) Wants(keyed.Use) bool            { return l.capture }
func (l *ledge) Offer(c *keyed.Capture)          { l.offers = append(l.offers, c) }
func (l *ledge) Scratch() (keyed.Scratch, error) { return l, nil }
func (l *ledge) View(g []uint32) (keyed.ScratchView, error) {
	v := view{}
	for _, gen := range g {
		v = append(v, maps.Clone(l.gens[gen]))
	}
	return v, nil
}

func (l *ledge) Drop(gen uint32) error {
	delete(l.gens, gen)
	return nil
}

func (l *ledge) Lookup(_ context.Context, keys [][]byte, hit func(int, []byte) error) error {
	for i, k := range keys {
		if v, ok := l.base[string(k)]; ok {
			if err := hit(i, v); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *ledge) Base(_ context.Context, id stream.CheckpointID) (*keyed.Base, error) {
	if !l.full || l.mark == stream.NoCheckpoint {
		return nil, nil
	}
	name := id.String()
	l.copies[name] = maps.Clone(l.base)
	h := state.Handle{Role: state.BaseFile, Base: name, To: l.mark, KeyGroups: all}
	return &keyed.Base{Name: name, To: l.mark, Own: true, Handles: []state.Handle{h}}, nil
}

func (l *ledge) Put(gen uint32, records func(func(keyed.Record) error) error) error {
	if l.gens[gen] == nil {
		l.gens[gen] = map[string]spilled{}
	}
	return records(func(r keyed.Record) error {
		l.spilled++
		l.gens[gen][string(r.Key)] = spilled{r.Epoch, r.Live, bytes.Clone(r.Value)}
		return nil
	})
}

func (l *ledge) Get(_ context.Context, gens []uint32, keys [][]byte, hit func(int, keyed.Record) error) error {
	for i, k := range keys {
		for _, g := range slices.Backward(gens) {
			if r, ok := l.gens[g][string(k)]; ok {
				if err := hit(i, keyed.Record{Epoch: r.epoch, Live: r.live, Value: r.value}); err != nil {
					return err
				}
				break
			}
		}
	}
	return nil
}

type view []map[string]spilled

func (v view) Close() error { return nil }

func (v view) Each(after []byte, f func(keyed.Record) error) error {
	for _, g := range v {
		for _, k := range slices.Sorted(maps.Keys(g)) {
			if after != nil && k <= string(after) {
				continue
			}
			r := g[k]
			if err := f(keyed.Record{Epoch: r.epoch, Live: r.live, Key: []byte(k), Value: r.value}); err != nil {
				return err
			}
		}
	}
	return nil
}

// apply brings the oldest capture into the base, or gives it up.
func (l *ledge) apply(t *rapid.T, applied bool) {
	if len(l.offers) == 0 {
		return
	}
	c := l.offers[0]
	l.offers = l.offers[1:]
	if applied {
		err := c.Each(func(r keyed.Record) error {
			if r.Live {
				l.base[string(r.Key)] = keyed.AppendEnvelope(nil, r.Value)
			} else {
				delete(l.base, string(r.Key))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		l.mark = c.ID
	}
	c.Done(applied)
}

var all = stream.KeyGroupRange{From: 0, To: 8}

// shelf is a store on a ledge beside what must be in it.
type shelf struct {
	*rapid.T
	*keyed.Store
	ledge   *ledge
	storage *statetest.Storage
	up      state.Uploader
	live    map[string]string
	number  uint32
	open    []snapshot
	values  int
}

type snapshot struct {
	id   stream.CheckpointID
	snap state.Snapshot
	want map[string]string
}

func newShelf(t *rapid.T, l *ledge, chain *keyed.Chain, storage *statetest.Storage) *shelf {
	var names keyed.Names
	d := state.Descriptor{Name: "count", Kind: "value", Serializer: "bytes"}
	s, err := keyed.NewStore(keyed.Options{
		Spec: state.Spec{
			Task: stream.TaskID{UID: "count"}, KeyGroups: all, MaxParallelism: int(all.To), Descriptors: []state.Descriptor{d},
		},
		Lineage: stream.Lineage{1}, Budget: keyed.NewBudget(1), Names: &names, Policy: keyed.Policy{Full: l.full}, Tier: l,
		Tiered: len(l.base) > 0, Chain: chain,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &shelf{T: t, Store: s, ledge: l, storage: storage, up: storage.Uploader(1), live: map[string]string{}}
}

func (s *shelf) pick(label string, n int) int { return rapid.IntRange(0, n-1).Draw(s.T, label) }

// batch compares some keys and changes them. Long values move, and need several
// slices to be copied out.
func (s *shelf) batch() {
	keys, hashes, refs := s.lookup(s.pick("from", 40), 1+s.pick("keys", 40))
	for i, k := range keys {
		s.compare(k, refs[i])
		switch s.pick("change", 4) {
		case 0:
			delete(s.live, string(k))
			refs[i].Delete()
		case 1, 2:
			s.values++
			v := bytes.Repeat([]byte{byte(s.values)}, []int{1, 8, 300, 5000, 40_000}[s.pick("length", 5)])
			copy(v, fmt.Sprint(s.values))
			s.live[string(k)] = string(v)
			refs[i].Set(v)
		}
	}
	_ = hashes
}

func (s *shelf) lookup(from, n int) (keys [][]byte, hashes []uint64, refs []state.Ref) {
	for i := range n {
		k := fmt.Appendf(nil, "key %d", (from+i)%40)
		keys, hashes = append(keys, k), append(hashes, stream.Hash(k))
	}
	refs = make([]state.Ref, n)
	if err := s.Batch(context.Background(), keys, hashes, refs); err != nil {
		s.Fatal(err)
	}
	return keys, hashes, refs
}

func (s *shelf) compare(key []byte, r state.Ref) {
	got, ok := r.Get()
	want, exists := s.live[string(key)]
	if ok != exists || string(got) != want {
		s.Fatalf("%s is %d bytes %.8q (%v), must be %d bytes %.8q (%v)", key, len(got), got, ok, len(want), want, exists)
	}
}

func (s *shelf) barrier() {
	if len(s.open) == 2 {
		return
	}
	s.number++
	id := stream.NewCheckpointID(1, s.number)
	s.ledge.capture = s.pick("capture", 2) == 0
	snap, err := s.Snapshot(id)
	if err != nil {
		s.Fatal(err)
	}
	s.open = append(s.open, snapshot{id, snap, maps.Clone(s.live)})
}

func (s *shelf) slice() {
	if _, err := s.Slice(); err != nil {
		s.Fatal(err)
	}
}

// persist ends the oldest snapshot. What its chain restores must be what was
// there at its barrier.
func (s *shelf) persist() {
	if len(s.open) == 0 {
		return
	}
	o := s.open[0]
	s.open = s.open[1:]
	if len(s.open) == 0 {
		for more := true; more; {
			var err error
			if more, err = s.Slice(); err != nil {
				s.Fatal(err)
			}
		}
	}
	hs, err := o.snap.Persist(context.Background(), s.up)
	if err != nil {
		s.Fatal(err)
	}
	s.restore(o, hs)
	o.snap.Release(s.pick("acknowledged", 4) > 0)
}

func (s *shelf) restore(o snapshot, hs []state.Handle) {
	chains, err := keyed.Chains("count", o.id, hs)
	if err != nil || len(chains) != 1 {
		s.Fatal(chains, err)
	}
	c := &chains[0]
	below := &ledge{base: maps.Clone(s.ledge.copies[c.BaseName()]), full: s.ledge.full, gens: map[uint32]map[string]spilled{}}
	n := newShelf(s.T, below, c, s.storage)
	defer n.Close()
	if _, err := n.Replay(context.Background(), s.storage, c.Segments, nil); err != nil {
		s.Fatal(err)
	}
	n.Begin(o.id)
	n.live = o.want
	keys, _, refs := n.lookup(0, 40)
	for i, k := range keys {
		n.compare(k, refs[i])
	}
}

// TestTiers: whenever a capture reaches the base, between which slices of which
// snapshot, what is in the cache, the scratch and the base is what was put there,
// and every snapshot restores to what was there at its barrier.
func TestTiers(t *testing.T) {
	total := 0
	rapid.Check(t, func(r *rapid.T) {
		l := &ledge{base: map[string][]byte{}, copies: map[string]map[string][]byte{}, gens: map[uint32]map[string]spilled{}}
		l.full = rapid.Bool().Draw(r, "full")
		s := newShelf(r, l, nil, statetest.NewStorage())
		defer s.Close()
		for range 60 {
			switch s.pick("step", 8) {
			case 0, 1, 2:
				s.batch()
			case 3:
				s.barrier()
			case 4, 5:
				s.slice()
			case 6:
				s.persist()
			case 7:
				l.apply(r, s.pick("applied", 4) > 0)
			}
		}
		for len(s.open) > 0 {
			s.persist()
		}
		for len(l.offers) > 0 {
			l.apply(r, false)
		}
		total += l.spilled
	})
	if total == 0 {
		t.Error("nothing was spilled")
	}
}
