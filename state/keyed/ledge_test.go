package keyed_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"etl/state"
	"etl/state/keyed"
	"etl/stream"
)

// ledge is a Tier of maps. A real one works in the background, so that a test of
// it meets an order of events by luck; here the test says when a capture reaches
// the base and when the base is copied, and what it found comes again with its seed.
type ledge struct {
	shop    *shop
	groups  stream.KeyGroupRange
	base    map[string][]byte // envelopes by full key
	mark    state.Handle      // of the segment that the base ends with
	begun   bool              // the base has, or had, something
	offers  []*keyed.Capture
	capture bool // what Wants says
	made    []copied
	asked   stream.CheckpointID
	gens    map[uint32]map[string]spilled // the scratch
}

// copied is a base in storage, for checkpoints after one.
type copied struct {
	name  string
	to    stream.CheckpointID
	after stream.CheckpointID
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

// Base implements keyed.Tier. A copy counts for checkpoints of which none had asked
// when it was made; a full one has its own.
func (l *ledge) Base(_ context.Context, id stream.CheckpointID) (*keyed.Base, error) {
	if l.shop.full {
		if !l.begun {
			return nil, nil
		}
		return l.of(l.copy(id)), nil
	}
	l.asked = max(l.asked, id)
	for _, m := range slices.Backward(l.made) {
		if id > m.after {
			return l.of(m), nil
		}
	}
	return nil, nil
}

// copy stores the base as it is.
func (l *ledge) copy(after stream.CheckpointID) copied {
	m := copied{fmt.Sprint("base ", len(l.shop.copies)), l.mark.To, after}
	l.shop.copies[m.name] = maps.Clone(l.base)
	return m
}

func (l *ledge) of(m copied) *keyed.Base {
	h := state.Handle{Role: state.BaseFile, Base: m.name, To: m.to, KeyGroups: l.groups}
	return &keyed.Base{Name: m.name, To: m.to, Own: l.shop.full, Handles: []state.Handle{h}}
}

// materialize makes a base on which the chain begins.
func (l *ledge) materialize() {
	if l.begun && !l.shop.full {
		l.made = append(l.made, l.copy(l.asked))
	}
}

func (l *ledge) Put(gen uint32, records func(func(keyed.Record) error) error) error {
	if l.gens[gen] == nil {
		l.gens[gen] = map[string]spilled{}
	}
	return records(func(r keyed.Record) error {
		l.shop.spilled++
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

// add brings a record into the base.
func (l *ledge) add(r keyed.Record) error {
	if r.Live {
		l.base[string(r.Key)] = keyed.AppendEnvelope(nil, r.Value)
	} else {
		delete(l.base, string(r.Key))
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
		if c.ID > l.shop.completed {
			l.offers = append(l.offers, c) // not yet
			return
		}
		if err := c.Each(l.add); err != nil {
			t.Fatal(err)
		}
		l.mark, l.begun = c.Segment, true
	}
	c.Done(applied)
}

// has says how many segments of a chain the base has, false if it stands elsewhere.
func (l *ledge) has(c *keyed.Chain) (n int, ok bool) {
	i := slices.IndexFunc(c.Segments, func(h state.Handle) bool {
		return h.To == l.mark.To && h.Object == l.mark.Object && h.Offset == l.mark.Offset && h.CRC == l.mark.CRC
	})
	return i + 1, i >= 0
}
