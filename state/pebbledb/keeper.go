package pebbledb

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"etl/internal/fault"
	"etl/state/keyed"
	"etl/stream"
)

// goals are the materializations that are wanted and those that were made.
// Everything is under Backend.mu.
type goals struct {
	// goal counts the ones wanted, done those made or given up. To reach a goal,
	// every store of the base is captured once more.
	goal, done int
	made       []*materialized // the last two
	uploading  bool
	applying   bool
	failed     error // of the last try; the next completed checkpoint tries again
	// asked is the highest checkpoint whose base was asked for. A new base counts
	// for later ones only, so that all chains of a checkpoint have the same.
	asked stream.CheckpointID
	// anew: chains must begin on a new base, because key groups have moved.
	anew bool
	// private are the copies for self-contained checkpoints, by checkpoint.
	private     map[stream.CheckpointID]*materialized
	privateErr  map[stream.CheckpointID]error
	wantPrivate stream.CheckpointID
	changed     chan struct{} // closed at every change
}

// changedLocked wakes all who wait.
func (b *Backend) changedLocked() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// wait waits, without the lock, until something has changed.
func (b *Backend) wait(ctx context.Context) error {
	changed := b.changed
	b.mu.Unlock()
	defer b.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-b.ctx.Done():
		return context.Cause(b.ctx)
	}
}

// considerGoal wants a materialization when chains have grown long.
func (b *Backend) considerGoal() {
	if b.goal > b.done || b.cfg.Policy.Full {
		return
	}
	var bytes int64
	count := 0
	for _, t := range b.tiers {
		if t.counts() {
			bytes += t.bytes
			count = max(count, t.count)
		}
	}
	size := b.restoredSize
	if l := len(b.made); l > 0 {
		size = b.made[l-1].size
	}
	if b.cfg.Policy.Long(size, bytes, count) {
		b.goal++
	}
}

// keep is the goroutine that alone writes to the base once all stores are open.
// It does one thing after the other: apply what is complete, copy, materialize,
// and flush when there is nothing else.
func (b *Backend) keep() {
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-b.kick:
		}
		for b.ctx.Err() == nil && b.work() {
		}
	}
}

// work does the next thing, false when there is none.
func (b *Backend) work() bool {
	b.mu.Lock()
	o, id := b.nextOffer(), b.wantPrivate
	material, base := b.ready(), b.base
	b.mu.Unlock()
	switch {
	case o != nil:
		b.finish(o, b.apply(o))
	case id != stream.NoCheckpoint:
		b.copyPrivate(id)
	case material:
		b.beginMaterialize()
	case base != nil && base.unflushed.Load():
		if err := b.flush(base); err != nil {
			b.fail(stream.Errorf(stream.Environment, "state.base_write", "write the local state base", b.cfg.Dir, "%w", err))
		}
	default:
		return false
	}
	return true
}

// nextOffer takes a capture whose checkpoint, or a later one, is complete: its
// segment is in the chain of that checkpoint.
func (b *Backend) nextOffer() *offer {
	i := slices.IndexFunc(b.offers, func(o *offer) bool { return o.capture.ID <= b.completed })
	if i < 0 {
		return nil
	}
	o := b.offers[i]
	b.offers = slices.Delete(b.offers, i, i+1)
	b.applying = true
	return o
}

func (b *Backend) finish(o *offer, err error) {
	b.mu.Lock()
	if b.applying = false; err == nil {
		o.tier.reached = max(o.tier.reached, o.goal)
	}
	b.changedLocked()
	b.mu.Unlock()
	o.capture.Done(err == nil)
	if err != nil {
		b.fail(stream.Errorf(stream.Restart, "state.apply", "apply changes to the local state base", b.cfg.Dir, "%w", err))
	}
}

// ready reports whether the base holds what the wanted materialization needs.
func (b *Backend) ready() bool {
	if b.uploading || b.failed != nil || b.base == nil {
		return false
	}
	if b.anew {
		return true
	}
	if b.goal == b.done {
		return false
	}
	for _, t := range b.tiers {
		if t.counts() && t.reached < b.goal {
			return false
		}
	}
	return true
}

// beginMaterialize takes the hard-link copy, and uploads it on another goroutine:
// the base may go on meanwhile.
func (b *Backend) beginMaterialize() {
	m, files, err := b.link()
	b.mu.Lock()
	b.uploading = true
	goal := b.goal
	b.mu.Unlock()
	b.kept.Go(func() {
		if err == nil {
			err = b.upload(m, files, false)
		}
		b.endMaterialize(m, goal, err)
	})
}

func (b *Backend) endMaterialize(m *materialized, goal int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.uploading = false
	if err != nil {
		b.failed = err
		b.changedLocked()
		b.log().Warn("a base could not be materialized; the next checkpoint tries again", "error", err)
		return
	}
	fault.Point("K12-base-uploaded")
	b.counts.materializations.Add(1)
	b.log().Info("base of keyed state materialized", "base", m.name, "files", len(m.files), "bytes", m.size)
	m.after = b.asked
	if b.anew {
		m.after = stream.NoCheckpoint
	}
	b.made = append(b.made, m)
	b.made = b.made[max(0, len(b.made)-2):]
	b.done, b.anew = goal, false
	for _, t := range b.tiers {
		t.bytes, t.count = 0, 0
	}
	b.changedLocked()
	b.wake()
}

// copyPrivate makes the base of one self-contained checkpoint.
func (b *Backend) copyPrivate(id stream.CheckpointID) {
	m, files, err := b.link()
	if err == nil {
		err = b.upload(m, files, true)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wantPrivate = stream.NoCheckpoint
	if b.private == nil {
		b.private, b.privateErr = map[stream.CheckpointID]*materialized{}, map[stream.CheckpointID]error{}
	}
	if err != nil {
		b.privateErr[id] = err
	} else {
		b.counts.materializations.Add(1)
		b.private[id], b.anew = m, false
	}
	forgetOldest(b.private)
	forgetOldest(b.privateErr)
	b.changedLocked()
}

// privateCopies is how many checkpoints' copies are remembered. All stores of one
// checkpoint must get the same, and one may come to it long after another went on:
// as many as there are checkpoints under way must be known.
const privateCopies = 64

func forgetOldest[T any](m map[stream.CheckpointID]T) {
	if len(m) > privateCopies {
		delete(m, slices.Min(slices.Collect(maps.Keys(m))))
	}
}

// privateBase returns a copy of the base that belongs to checkpoint id alone. It
// is made when all stores have sealed id: the captures in their segments begin
// where the base stood then, or earlier.
func (t *tier) privateBase(ctx context.Context, id stream.CheckpointID) (*keyed.Base, error) {
	b := t.b
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		if err := b.privateErr[id]; err != nil {
			return nil, fmt.Errorf("copy of the base: %w", err)
		}
		if m := b.private[id]; m != nil {
			to, ok := m.marks[t.id]
			if !ok {
				return nil, nil
			}
			return m.of(t.id, to), nil
		}
		if b.base == nil || !t.inBase {
			return nil, nil
		}
		if !slices.ContainsFunc(b.tiers, func(o *tier) bool { return o.sealed < id }) {
			b.wantPrivate = id
			b.wake()
		}
		if err := b.wait(ctx); err != nil {
			return nil, err
		}
	}
}
