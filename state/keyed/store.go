package keyed

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"etl/state"
	"etl/stream"
)

// Options open a Store.
type Options struct {
	state.Spec
	Lineage stream.Lineage
	Budget  *Budget
	Names   *Names
	Policy  Policy
	Tier    Tier // nil keeps everything in memory
	// Tiered: the base below Tier holds entries of this store already.
	Tiered bool
	// Chain is the restored chain that this store's snapshots go on with, nil to
	// begin a new one.
	Chain *Chain
}

// Store is the keyed state of one subtask of one operator; see the package
// comment. It implements state.Store.
type Store struct {
	Options
	tables []*table
	coders []keyCoder // of tables
	tier   Tier
	tiered bool // the base has, or is about to get, entries of this store
	fresh  bool // the chain must begin anew with the next snapshot
	cur    uint32
	last   stream.CheckpointID
	copy   *sealed // being copied out

	spilled
	appliedEpoch uint32 // applied, as the task saw it last
	failed       error  // of a call that could not report it

	// Written by the background, read by the task: the epoch the base has, and
	// whether a capture is under way.
	applied   atomic.Uint32
	capturing atomic.Bool

	closed chan struct{}

	mu      sync.Mutex
	hist    history   // of the last persisted snapshot
	pending []*sealed // in order, not released yet
	size    int64     // of the full segment or base the history begins with
}

var errClosed = errors.New("the store was closed")

// NewStore returns an empty store, to be filled by Replay before its first
// Batch.
func NewStore(o Options) (*Store, error) {
	if o.MaxParallelism == 0 {
		o.MaxParallelism = stream.DefaultMaxParallelism
	}
	if len(o.Descriptors) == 0 || len(o.Descriptors) > 255 {
		return nil, stream.Errorf(stream.BadConfig, "state.descriptors", "open keyed state", o.Task.String(), "%d keyed states are declared; 1 to 255 are possible", len(o.Descriptors))
	}
	if o.KeyGroups.Len() <= 0 || int(o.KeyGroups.To) > o.MaxParallelism || o.MaxParallelism > int(MetaGroup) {
		return nil, stream.Errorf(stream.BadConfig, "state.key_groups", "open keyed state", o.Task.String(), "key groups [%d, %d) of %d", o.KeyGroups.From, o.KeyGroups.To, o.MaxParallelism)
	}
	s := &Store{Options: o, tier: o.Tier, tiered: o.Tiered, cur: firstEpoch, closed: make(chan struct{})}
	for i, d := range o.Descriptors {
		id, err := o.Names.Intern(o.Task.UID, d)
		if err != nil {
			return nil, err
		}
		t := &table{
			arena: newArena(o.Budget), index: newIndex(o.Budget), open: firstEpoch,
			complete: !o.Tiered, number: uint8(i), store: s, keys: keyCoder{state: id, parallel: o.MaxParallelism},
		}
		if s.tier != nil {
			t.captured = clean
		}
		s.tables, s.coders = append(s.tables, t), append(s.coders, t.keys)
	}
	s.applied.Store(clean)
	s.appliedEpoch = clean
	s.adopt(o.Chain)
	o.Budget.stores.Add(1)
	return s, nil
}

func (s *Store) name() string { return s.Task.String() }

// AppendKey adds the full key of a key of the i-th state to b.
func (s *Store) AppendKey(b []byte, i int, key []byte) []byte {
	c := s.coders[i]
	return c.append(b, c.group(key), key)
}

// Batch implements state.Keyed for the first declared state: R6.
func (s *Store) Batch(ctx context.Context, keys [][]byte, hashes []uint64, refs []state.Ref) error {
	return s.tables[0].Batch(ctx, keys, hashes, refs)
}

// Get implements state.Entry.
func (s *Store) Get(at uint64) ([]byte, bool) { return s.tables[0].Get(at) }

// Mutable implements state.Entry.
func (s *Store) Mutable(at uint64, n int) []byte { return s.tables[0].Mutable(at, n) }

// Delete implements state.Entry.
func (s *Store) Delete(at uint64) { s.tables[0].Delete(at) }

// Dirty implements state.Keyed.
func (s *Store) Dirty(pos int, f func(key, value []byte, ok bool) bool) (int, bool) {
	return s.tables[0].Dirty(pos, f)
}

// State returns the state with the i-th descriptor.
func (s *Store) State(i int) state.Keyed { return s.tables[i] }

// OverBudget implements state.Store. A checkpoint helps only while no capture
// is on its way, and only a store that holds its share.
func (s *Store) OverBudget() bool {
	all := s.Budget.unapplied.Load()
	return s.tier != nil && all > s.Budget.limit/2 && !s.capturing.Load() && s.unapplied() > all/2/max(1, s.Budget.stores.Load())
}

// count publishes the store's size.
func (s *Store) count() {
	if s.Counters == nil {
		return
	}
	keys, bytes := 0, 0
	for _, t := range s.tables {
		keys += t.n
		bytes += t.bytes()
	}
	s.Counters.StateKeys.Store(int64(keys))
	s.Counters.StateBytes.Store(int64(bytes))
}

// captureDone is told by the base what became of a capture.
func (s *Store) captureDone(sd *sealed, applied bool) {
	if applied {
		s.applied.Store(sd.epoch)
	}
	sd.free()
	s.capturing.Store(false)
}

// Close implements state.Store. Snapshots under way fail.
func (s *Store) Close() error {
	select {
	case <-s.closed:
		return nil
	default:
	}
	close(s.closed)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tables {
		t.close()
	}
	for _, p := range s.pending {
		if p.released {
			p.free()
		}
	}
	s.Budget.stores.Add(-1)
	return nil
}

func (t *table) close() {
	t.publish(-t.published)
	t.arena.reset()
	t.index.reset()
}

// bytes returns the memory of the table.
func (t *table) bytes() int { return t.total + len(t.held)*hugePage }
