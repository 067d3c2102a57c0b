package pebbledb

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"etl/state"
	"etl/state/keyed"
	"etl/stream"
)

// Backend implements state.Backend; see the package comment.
type Backend struct {
	cfg    Config
	budget *keyed.Budget
	names  keyed.Names
	ctx    context.Context
	stop   context.CancelCauseFunc
	kick   chan struct{} // there may be work for the keeper
	kept   sync.WaitGroup

	failure   atomic.Pointer[failure]
	abandoned atomic.Bool // a call into Pebble never came back
	baseDir   atomic.Pointer[string]
	probing   atomic.Bool // a local database is looked at: its faults only discard it
	counts    counts

	opening sync.Mutex // held while a database is opened, which may take a while

	mu           sync.Mutex
	base         *base // nil until something is applied or restored
	scratch      *pebble.DB
	scratchAt    string
	chains       map[stream.UID][]keyed.Chain
	restored     state.Restored
	restoredSize int64           // of the restored base, in storage
	has          map[storeID]int // how many segments of a restored chain the base has
	tiers        []*tier
	completed    stream.CheckpointID
	offers       []*offer
	goals
}

type failure struct{ err error }

// counts are the numbers of state.BackendStats.
type counts struct {
	materializations, segments, entries, reused, discarded, spilled, reads atomic.Int64
}

// base is the local Pebble database.
type base struct {
	db   *pebble.DB
	dir  string
	meta meta
	// stored are the files that lie in checkpoint storage, by name.
	stored map[string]state.Handle
	// unchecked are files of an earlier life that may be the stored ones of the
	// same name: their bytes are compared before one is taken for the other.
	unchecked map[string]state.Handle
	// unflushed: something was applied since the last flush, by the keeper or by stores
	// that are being filled.
	unflushed atomic.Bool
}

// New returns the backend of an attempt.
func New(cfg Config) (*Backend, error) {
	b, err := resting(cfg)
	if err == nil {
		b.kept.Go(b.keep)
	}
	return b, err
}

// resting returns a backend without its keeper.
func resting(cfg Config) (*Backend, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Backend{cfg: cfg, budget: keyed.NewBudget(cfg.Memory), kick: make(chan struct{}, 1), has: map[storeID]int{}}
	b.ctx, b.stop = context.WithCancelCause(context.Background())
	b.changed = make(chan struct{})
	return b, nil
}

// fail notes the first failure of background work; it ends the attempt. What
// fails because the backend is being closed does not count.
func (b *Backend) fail(err error) {
	if err != nil && !errors.Is(err, errStopped) && b.failure.CompareAndSwap(nil, &failure{err}) {
		b.stop(err)
	}
}

// Err implements state.Backend.
func (b *Backend) Err() error {
	if f := b.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

// Completed implements state.Backend: epochs up to id may reach the base.
func (b *Backend) Completed(id stream.CheckpointID) {
	b.mu.Lock()
	b.completed = max(b.completed, id)
	b.failed = nil
	b.mu.Unlock()
	b.wake()
}

func (b *Backend) wake() {
	select {
	case b.kick <- struct{}{}:
	default:
	}
}

// Stats implements state.Backend.
func (b *Backend) Stats() state.BackendStats {
	s := state.BackendStats{
		Materializations: b.counts.materializations.Load(),
		SegmentsReplayed: b.counts.segments.Load(), EntriesReplayed: b.counts.entries.Load(),
		BasesReused: b.counts.reused.Load(), BasesDiscarded: b.counts.discarded.Load(),
		Spilled: b.counts.spilled.Load(), BaseReads: b.counts.reads.Load(),
		CacheBytes: b.budget.Used(),
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.tiers {
		s.SegmentBytesSinceBase += t.bytes
	}
	if b.base != nil && b.Err() == nil && b.ctx.Err() == nil {
		s.BaseBytes = int64(b.base.db.Metrics().DiskSpaceUsage())
	}
	return s
}

var errStopped = errors.New("the state backend was closed")

// Close implements state.Backend. What lies on disk stays for the next attempt,
// but for the scratch.
func (b *Backend) Close() error {
	b.stop(errStopped)
	b.kept.Wait()
	b.mu.Lock()
	tiers, offers, base, scratch := b.tiers, b.offers, b.base, b.scratch
	b.tiers, b.offers, b.base, b.scratch = nil, nil, nil, nil
	b.mu.Unlock()
	for _, t := range tiers {
		_ = t.store.Close()
	}
	for _, o := range offers {
		o.capture.Done(false)
	}
	if b.abandoned.Load() {
		return nil // closing would wait for the call; the next attempt makes do without
	}
	var err error
	if scratch != nil {
		err = errors.Join(b.closeDB(scratch), b.cfg.FS.RemoveAll(b.scratchAt))
	}
	if base != nil {
		err = errors.Join(err, b.closeDB(base.db))
	}
	if b.Err() != nil {
		return nil // it was reported, and a failed database may not close cleanly
	}
	return err
}

func (b *Backend) closeDB(db *pebble.DB) error {
	return b.within("close the local state base", db.Close)
}
