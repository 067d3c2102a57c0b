package pebbledb

import (
	"context"

	"etl/state"
	"etl/state/keyed"
	"etl/stream"
)

// Rest waits until the keeper has nothing to do.
func (b *Backend) Rest() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.Err() == nil {
		busy := b.uploading || b.wantPrivate != 0 || b.ready() || b.applying
		for _, o := range b.offers {
			busy = busy || o.capture.ID <= b.completed
		}
		b.wake()
		if !busy || b.wait(context.Background()) != nil {
			return
		}
	}
}

// NewStepwise returns a backend that does nothing in the background until Step is
// called: what it finds then does not depend on time.
func NewStepwise(cfg Config) (*Backend, error) { return resting(cfg) }

// Step does the next thing that the keeper would do, false if there is none.
func (b *Backend) Step() bool { return b.ctx.Err() == nil && b.work() }

// Unfinished leaves the base as a kill in the middle of an apply does: it is on its
// way to the end of segment, and has one record of it.
func (b *Backend) Unfinished(uid stream.UID, segment state.Handle, key, value string) error {
	var t *tier
	for _, o := range b.tiers {
		if o.id == (storeID{uid, segment.KeyGroups}) {
			t = o
		}
	}
	w, err := b.beginChange(b.base, t.id, b.markOf(segment))
	if err != nil {
		return err
	}
	if err := w.add(keyed.Record{Live: true, Key: t.store.AppendKey(nil, 0, []byte(key)), Value: []byte(value)}); err != nil {
		return err
	}
	if err := w.flush(nil); err != nil {
		return err
	}
	return b.flush(b.base)
}
