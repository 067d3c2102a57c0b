package pebbledb

import "context"

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
