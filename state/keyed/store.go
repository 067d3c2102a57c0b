package keyed

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"etl/internal/fault"
	"etl/internal/invariant"
	"etl/state"
	"etl/stream"
)

// Policy says what snapshots consist of.
type Policy struct {
	// Full makes every snapshot self-contained; otherwise a snapshot adds a
	// segment to the chain.
	Full bool
	// Base replaces long chains by a base even while everything is in memory,
	// instead of by a full segment. A full segment costs about a fiftieth of the
	// processor time per entry; a base lets a restart begin at once.
	Base bool
	// SegmentBytes is how many bytes of segments may follow a full segment or a
	// base before a new one is made; it is made at twice the size of the old one
	// if that is more. Default 256 MiB.
	SegmentBytes int64
	// SegmentCount is the same for their number, so that metadata stays small;
	// small segments get more. Default 256.
	SegmentCount int
}

func (p Policy) withDefaults() Policy {
	if p.SegmentBytes == 0 {
		p.SegmentBytes = 256 << 20
	}
	if p.SegmentCount == 0 {
		p.SegmentCount = 256
	}
	return p
}

// Long reports whether so much follows a base or full segment of size bytes that
// it should be replaced. A number of segments alone is no reason while they are
// small beside it, up to eight times SegmentCount: writing a gigabyte again to
// save a few kilobytes of metadata is no bargain.
func (p Policy) Long(size, bytes int64, count int) bool {
	p = p.withDefaults()
	switch {
	case bytes > max(p.SegmentBytes, 2*size):
		return true
	case count > p.SegmentCount:
		return bytes > size/4 || count > 8*p.SegmentCount
	}
	return false
}

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

// adopt goes on with a restored chain.
func (s *Store) adopt(c *Chain) {
	if c == nil {
		return
	}
	if len(c.Base) > 0 {
		s.hist.base = &Base{Name: c.BaseName(), Handles: c.Base, To: c.BaseEnd()}
		for _, h := range c.Base {
			s.size += h.Size
		}
	} else if len(c.Segments) > 0 {
		s.size = c.Segments[0].Size
	}
	for _, h := range c.Segments {
		s.hist.links = append(s.hist.links, link{Handle: h})
	}
	s.last = s.hist.end()
}

func (s *Store) name() string { return s.Task.String() }

// Begin ends the filling of a store restored at checkpoint id. A store that
// holds something and goes on with no chain, because the operator was rescaled,
// begins one with its first snapshot.
func (s *Store) Begin(id stream.CheckpointID) {
	s.last = max(s.last, id)
	for _, t := range s.tables {
		s.fresh = s.fresh || s.Chain == nil && t.n > 0
	}
	s.count()
}

// Drain calls f with all entries and forgets them: the base has them then. It
// belongs to the filling of a store, before Begin.
func (s *Store) Drain(f func(Record) error) error {
	for _, t := range s.tables {
		d := delta{mem: s.Budget}
		t.seal(clean, true, &d)
		for t.slice() {
			if err := s.give(&d, f); err != nil {
				return err
			}
		}
		if err := s.give(&d, f); err != nil {
			return err
		}
		t.clear()
	}
	s.Lower()
	return nil
}

// give passes what was copied out on to f.
func (s *Store) give(d *delta, f func(Record) error) error {
	sd := &sealed{delta: *d, tables: s.coders}
	err := sd.each(0, f)
	d.release()
	return err
}

// Lower says that the base has entries of the store.
func (s *Store) Lower() {
	s.tiered = true
	for _, t := range s.tables {
		t.complete = false
	}
}

// Pin keeps a segment's end in the chain: the base bears it as its mark.
func (s *Store) Pin(id stream.CheckpointID) {
	for i := range s.hist.links {
		s.hist.links[i].pinned = s.hist.links[i].pinned || s.hist.links[i].To == id
	}
}

// Small reports that the store has so little in memory that emptying it would
// make no room.
func (s *Store) Small() bool {
	n := int64(0)
	for _, t := range s.tables {
		n += int64(t.total)
	}
	return n < s.Budget.limit/8
}

// clear forgets all entries.
func (t *table) clear() {
	t.publish(-t.published)
	t.arena.reset()
	t.index.reset()
	t.index = newIndex(t.store.Budget)
	t.capture = capture{captured: t.captured}
	t.relief = relief{}
	t.dirty.clear()
	t.open = firstEpoch
}

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

// sealed is a sealed epoch: what a snapshot has to persist.
type sealed struct {
	id    stream.CheckpointID
	epoch uint32
	lo    uint32
	kind  snapshotKind
	offer bool // the capture goes to the base, too
	delta delta
	view  ScratchView
	// tables makes full keys for the records in delta.
	tables []keyCoder
	done   chan struct{} // closed when the copy-out has ended

	early   *delta // what of view belongs to the segment
	segment state.Handle
	// in is the snapshot whose segment has the changes, NoCheckpoint for none.
	in       stream.CheckpointID
	released bool
	before   history // of the store, for the case that the segment does not count
	sizeWas  int64
}

// snapshotKind says what the segment of a snapshot holds.
type snapshotKind uint8

const (
	deltaOnly snapshotKind = iota // what changed in one epoch
	sinceBase                     // what changed after the base
	everything
)

// Snapshot implements state.Store: B4, the quick part. It swaps lists.
func (s *Store) Snapshot(id stream.CheckpointID) (state.Snapshot, error) {
	fault.Point("K08-snapshot")
	if s.failed != nil {
		return nil, s.failed
	}
	for s.copy != nil { // I7: the copy-out of n ends before the freeze of n+1
		if _, err := s.Slice(); err != nil {
			return nil, err
		}
	}
	invariant.Check(id > s.last, "I1: snapshot %s after %s", id, s.last)
	s.last = id
	sd := &sealed{id: id, epoch: s.cur, done: make(chan struct{}), delta: delta{mem: s.Budget}, tables: s.coders}
	s.plan(sd)
	if err := s.freezeScratch(sd); err != nil {
		return nil, err
	}
	if s.tier != nil {
		s.tier.Sealed(id)
	}
	for _, t := range s.tables {
		t.seal(sd.lo, sd.kind != deltaOnly || sd.offer, &sd.delta)
		if sd.offer {
			t.captureBegins(sd.epoch)
		}
	}
	s.cur++
	s.copy = sd
	s.count()
	s.mu.Lock()
	s.pending = append(s.pending, sd)
	s.mu.Unlock()
	if s.idle() {
		_, err := s.Slice()
		return &snapshot{s, sd}, err
	}
	return &snapshot{s, sd}, nil
}

// idle reports that a copy-out has nothing to do.
func (s *Store) idle() bool {
	for _, t := range s.tables {
		if t.scan || t.frozen.n > 0 {
			return false
		}
	}
	return true
}

// plan decides what the sealed epoch's snapshot consists of.
func (s *Store) plan(sd *sealed) {
	s.mu.Lock()
	hist, size := s.hist, s.size
	s.mu.Unlock()
	sd.lo = sd.epoch - 1
	if s.tier != nil && !s.capturing.Load() && s.tier.Wants(Use{ID: sd.id, Unapplied: s.unapplied(), Since: hist.since}) {
		s.capturing.Store(true)
		sd.offer, s.tiered = true, true
		sd.lo = s.applied.Load()
	}
	switch {
	case s.complete() && !s.tiered:
		if s.fresh || s.Policy.Full || s.wantsFull(hist, size) {
			sd.kind, sd.lo = everything, 0
		}
	case s.Policy.Full || s.fresh:
		// A store that was rescaled in memory and had to spill before its first
		// snapshot has nothing in the base: this is everything, too.
		sd.kind, sd.lo = sinceBase, s.applied.Load()
	}
	s.fresh = false
}

// wantsFull reports whether a chain, which begins with a full segment of size
// bytes, should begin anew with another one.
func (s *Store) wantsFull(h history, size int64) bool {
	if s.Policy.Base && s.tier != nil || len(h.links) == 0 {
		return false
	}
	bytes, count := h.since(h.links[0].To)
	return s.Policy.Long(size, bytes, count)
}

// complete reports whether all keys of all tables are in memory.
func (s *Store) complete() bool {
	return !slices.ContainsFunc(s.tables, func(t *table) bool { return !t.complete })
}

func (s *Store) unapplied() (n int64) {
	for _, t := range s.tables {
		n += t.unapplied
	}
	return n
}

// Slice implements state.Store.
func (s *Store) Slice() (more bool, err error) {
	if s.copy == nil {
		return false, nil
	}
	for _, t := range s.tables {
		if t.slice() {
			return true, nil
		}
	}
	fault.Point("K08-copied-out")
	close(s.copy.done)
	s.copy = nil
	s.count()
	return false, nil
}

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

// free gives the memory of a sealed epoch back.
func (sd *sealed) free() {
	sd.delta.release()
	if sd.early != nil {
		sd.early.release()
	}
	if sd.view != nil {
		_ = sd.view.Close()
		sd.view = nil
	}
}
