package pebbledb

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"etl/state/keyed"
)

// scratch is the part of the process's scratch database that belongs to a store.
// It implements keyed.Scratch. Nothing in it outlives the process: no log, no
// sync, and it is deleted at the next start if this one cannot.
//
//	key: store u16 BE | generation u32 BE | full key
//	value: epoch u32 | live u8 | value
type scratch struct {
	t  *tier
	db *pebble.DB
}

const scratchHeader = 5

// Scratch implements keyed.Tier.
func (t *tier) Scratch() (keyed.Scratch, error) {
	b := t.b
	b.opening.Lock()
	defer b.opening.Unlock()
	b.mu.Lock()
	db := b.scratch
	b.mu.Unlock()
	if db != nil {
		return &scratch{t: t, db: db}, nil
	}
	random, err := b.cfg.random(6)
	if err != nil {
		return nil, err
	}
	dir := b.cfg.FS.PathJoin(b.cfg.Dir, scratchPrefix+random)
	if db, err = pebble.Open(dir, b.scratchOptions()); err != nil {
		return nil, environment(dir, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.scratch, b.scratchAt = db, dir
	return &scratch{t: t, db: db}, nil
}

func (s *scratch) key(b []byte, gen uint32, key []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, s.t.number)
	b = binary.BigEndian.AppendUint32(b, gen)
	return append(b, key...)
}

// Put implements keyed.Scratch.
func (s *scratch) Put(gen uint32, records func(add func(keyed.Record) error) error) error {
	if err := s.t.b.Err(); err != nil {
		return err
	}
	return guard(func() error {
		batch := s.db.NewBatch()
		var key, value []byte
		err := records(func(r keyed.Record) error {
			key = s.key(key[:0], gen, r.Key)
			value = append(binary.LittleEndian.AppendUint32(value[:0], r.Epoch), 0)
			if r.Live {
				value[4] = 1
			}
			s.t.b.counts.spilled.Add(1)
			return batch.Set(key, append(value, r.Value...), nil)
		})
		if err != nil {
			return err
		}
		return batch.Commit(pebble.NoSync)
	})
}

func parseSpilled(v []byte) (r keyed.Record, err error) {
	if len(v) < scratchHeader {
		return r, fmt.Errorf("malformed record in the scratch: %x", v)
	}
	return keyed.Record{Epoch: binary.LittleEndian.Uint32(v), Live: v[4] == 1, Value: v[scratchHeader:]}, nil
}

// Get implements keyed.Scratch.
func (s *scratch) Get(ctx context.Context, gens []uint32, keys [][]byte, hit func(i int, r keyed.Record) error) error {
	return guard(func() error {
		var key []byte
		for i, k := range keys {
			for g := len(gens) - 1; g >= 0; g-- {
				key = s.key(key[:0], gens[g], k)
				v, closer, err := s.db.Get(key)
				if errors.Is(err, pebble.ErrNotFound) {
					continue
				}
				if err != nil {
					return err
				}
				r, err := parseSpilled(v)
				if err == nil {
					err = hit(i, r)
				}
				_ = closer.Close()
				if err != nil {
					return err
				}
				break
			}
		}
		return ctx.Err()
	})
}

// View implements keyed.Scratch.
func (s *scratch) View(gens []uint32) (keyed.ScratchView, error) {
	return &scratchView{s: s, snap: s.db.NewSnapshot(), gens: gens}, nil
}

// Drop implements keyed.Scratch.
func (s *scratch) Drop(gen uint32) error {
	return guard(func() error {
		batch := s.db.NewBatch()
		if err := batch.DeleteRange(s.key(nil, gen, nil), s.key(nil, gen+1, nil), nil); err != nil {
			return err
		}
		return batch.Commit(pebble.NoSync)
	})
}

type scratchView struct {
	s    *scratch
	snap *pebble.Snapshot
	gens []uint32
}

// Each implements keyed.ScratchView.
func (v *scratchView) Each(after []byte, f func(keyed.Record) error) error {
	return guard(func() error {
		for _, g := range v.gens {
			if err := v.generation(g, after, f); err != nil {
				return err
			}
		}
		return nil
	})
}

func (v *scratchView) generation(g uint32, after []byte, f func(keyed.Record) error) (err error) {
	from := v.s.key(nil, g, nil)
	prefix := len(from)
	if after != nil {
		from = append(append(from, after...), 0)
	}
	it, err := v.snap.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: v.s.key(nil, g+1, nil)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		r, err := parseSpilled(value)
		if err != nil {
			return err
		}
		r.Key = it.Key()[prefix:]
		if err := f(r); err != nil {
			return err
		}
	}
	return it.Error()
}

// Close implements keyed.ScratchView.
func (v *scratchView) Close() error { return v.snap.Close() }
