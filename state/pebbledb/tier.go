package pebbledb

import (
	"context"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"etl/state/keyed"
	"etl/stream"
)

// tier is what lies below one store. It implements keyed.Tier.
type tier struct {
	b     *Backend
	id    storeID
	store *keyed.Store
	// Under Backend.mu:
	inBase  bool // the base has a mark of this store, or is about to get one
	sealed  stream.CheckpointID
	bytes   int64 // of the segments since the base, as of the last barrier
	count   int
	goal    int // the goal that the last capture of this store was taken for
	reached int // the last goal whose capture the base has
	number  uint16
	moved   *mark // of a store whose key groups were others' before
}

// offer is a capture that waits for its checkpoint to be complete.
type offer struct {
	tier    *tier
	capture *keyed.Capture
	goal    int
}

// Sealed implements keyed.Tier.
func (t *tier) Sealed(id stream.CheckpointID) {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	t.sealed = id
	t.b.changedLocked()
}

// Wants implements keyed.Tier. Entries cost Pebble 3 to 5 microseconds each, so
// that captures are taken rarely: when the budget is filling up with entries that
// may not leave memory, or when chains have grown long.
func (t *tier) Wants(u keyed.Use) bool {
	b := t.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.Err() != nil {
		return false
	}
	newest := stream.NoCheckpoint
	if l := len(b.made); l > 0 {
		newest = b.made[l-1].marks[t.id].ID
	}
	t.bytes, t.count = u.Since(newest)
	b.considerGoal()
	if !t.counts() || t.reached >= b.goal {
		if !b.needsRoom(u.Unapplied) {
			return false
		}
	}
	t.goal, t.inBase = b.goal, true
	return true
}

// counts reports whether the store is part of what is materialized.
func (t *tier) counts() bool { return t.inBase || t.b.cfg.Policy.Base }

// needsRoom reports whether the budget is filling up with entries that may not
// leave memory, a fair part of them a store's own.
func (b *Backend) needsRoom(own int64) bool {
	all, limit := b.budget.Unapplied(), b.budget.Limit()
	return own > all/4/int64(max(1, len(b.tiers))) && b.budget.Used() > limit/4*3 && all > limit/4
}

// Offer implements keyed.Tier.
func (t *tier) Offer(c *keyed.Capture) {
	b := t.b
	b.mu.Lock()
	b.offers = append(b.offers, &offer{tier: t, capture: c, goal: t.goal})
	b.mu.Unlock()
	b.wake()
}

// Lookup implements keyed.Tier.
func (t *tier) Lookup(ctx context.Context, keys [][]byte, hit func(i int, envelope []byte) error) error {
	b := t.b
	if err := b.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	base := b.base
	b.mu.Unlock()
	if base == nil {
		return nil
	}
	b.counts.reads.Add(int64(len(keys)))
	return guard(func() error {
		for i, k := range keys {
			v, closer, err := base.db.Get(k)
			if errors.Is(err, pebble.ErrNotFound) {
				continue
			}
			if err != nil {
				if pebble.IsCorruptionError(err) {
					b.distrust()
					return corrupt(b.cfg.Dir, err)
				}
				return err
			}
			err = hit(i, v)
			_ = closer.Close()
			if err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}

// Base implements keyed.Tier.
func (t *tier) Base(ctx context.Context, id stream.CheckpointID) (*keyed.Base, error) {
	b := t.b
	if b.cfg.Policy.Full {
		return t.privateBase(ctx, id)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = max(b.asked, id)
	if b.anew {
		b.failed = nil
	}
	for b.anew && t.inBase { // after a rescale chains begin on a new base
		if b.failed != nil {
			return nil, b.failed
		}
		b.wake()
		if err := b.wait(ctx); err != nil {
			return nil, err
		}
	}
	for _, m := range slices.Backward(b.made) {
		if to, ok := m.marks[t.id]; ok && id > m.after {
			return m.of(t.id, to), nil
		}
	}
	return nil, nil
}
