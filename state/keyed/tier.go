package keyed

import (
	"context"

	"etl/state"
	"etl/stream"
)

// Tier is what lies below the cache of one store: a base, which holds entries of
// completed checkpoints, and a scratch, which holds what had to leave memory
// before the base may have it. A store without a Tier keeps everything in memory.
//
// Lookup and the methods of Scratch are called by the task goroutine, Offer and
// Base by the one that persists.
type Tier interface {
	// Sealed tells of every snapshot, at its barrier.
	Sealed(id stream.CheckpointID)
	// Wants reports, at a barrier, whether the snapshot should capture everything
	// that the base does not have, because the cache needs room or the chain has
	// grown long.
	Wants(u Use) bool
	// Offer hands a capture over. It may reach the base once a checkpoint that
	// contains it is complete; then Done(true) is called, or Done(false) if it
	// never will.
	Offer(c *Capture)
	// Lookup finds keys in the base and calls hit with the index and the value
	// envelope of each key that is there.
	Lookup(ctx context.Context, keys [][]byte, hit func(i int, envelope []byte) error) error
	// Scratch returns the scratch, opened when it is first needed.
	Scratch() (Scratch, error)
	// Base returns the base that the chain of snapshot id begins with, nil when
	// there is none yet.
	Base(ctx context.Context, id stream.CheckpointID) (*Base, error)
}

// Use describes a store to its tier at a barrier.
type Use struct {
	ID stream.CheckpointID
	// Unapplied is the size of the entries that the base does not have, in bytes.
	Unapplied int64
	// Since returns size and number of the chain's segments after a checkpoint.
	Since func(stream.CheckpointID) (bytes int64, count int)
}

// Base is a materialized base as a store's chain lists it.
type Base struct {
	Name    string
	Handles []state.Handle // with To set to this store's end of the base
	To      stream.CheckpointID
	// Own: the handles belong to this one checkpoint.
	Own bool
}

// Capture is everything of a store that changed after what its base has, up to
// the end of a segment.
type Capture struct {
	ID stream.CheckpointID
	// Segment is the handle of the segment that ends there: the mark of a base
	// that has the capture.
	Segment state.Handle
	// Entries is an upper bound of the number of entries.
	Entries int
	store   *Store
	sealed  *sealed
}

// Record is an entry on its way to the base. Key is the full key; a record
// without Live is a deletion. Bytes are valid until the next record.
type Record struct {
	Epoch uint32
	Live  bool
	Key   []byte
	Value []byte // without envelope
}

// Each calls f with every record: what lies in the scratch first, then what was
// copied out of the cache, which is newer where the same key comes twice.
func (c *Capture) Each(f func(Record) error) error {
	return c.sealed.each(c.sealed.lo, f)
}

// Done ends the capture. From then on its entries may leave the cache if applied
// is true; otherwise the next capture has them again. Any goroutine.
func (c *Capture) Done(applied bool) { c.store.captureDone(c.sealed, applied) }

// Scratch keeps entries outside memory for the life of a process. Entries lie in
// generations: all of one are dropped together.
type Scratch interface {
	// Put adds entries to a generation.
	Put(gen uint32, records func(add func(Record) error) error) error
	// Get finds keys in the given generations, looking into the last one first.
	Get(ctx context.Context, gens []uint32, keys [][]byte, hit func(i int, r Record) error) error
	// View freezes the given generations.
	View(gens []uint32) (ScratchView, error)
	// Drop deletes a generation. A view keeps what it shows.
	Drop(gen uint32) error
}

// ScratchView is a scratch as it was when the view was taken. Any goroutine.
type ScratchView interface {
	// Each calls f with the records of all generations, in order, until it fails.
	// With a key, it begins behind that key in the last generation.
	Each(after []byte, f func(Record) error) error
	Close() error
}
