package state

import (
	"context"

	"etl/stream"
)

// Descriptor declares one keyed state of an operator.
type Descriptor struct {
	// Name is unique within the operator and stored in every checkpoint.
	Name string
	// Kind is "value" today; list, map, reducing and aggregating follow.
	Kind string
	// Serializer names the encoding of the values, with its version, such as
	// "aggregate/1": a restore with another one is refused.
	Serializer string
}

// Keyed is the keyed state of one operator on one subtask, by batch. It is used
// by the task goroutine only.
type Keyed interface {
	// Batch finds the entries of keys, whose hashes are stream.Hash(key), and
	// fills refs, one for each key; keys may repeat and then share an entry. An
	// absent key gives a Ref whose Get reports false until it is set. Refs are
	// valid until the next call of Batch, Snapshot or Slice. Index slots, then
	// entries, are brought into the processor's caches together for 64 keys at a
	// time, so that a call with few keys is a slow one.
	Batch(ctx context.Context, keys [][]byte, hashes []uint64, refs []Ref) error
	// Entry is what a Ref stands on; operators use the methods of Ref.
	Entry
	// Dirty calls f for each key that was set or deleted in the current epoch,
	// until it returns false. A walk begins at pos 0; where f stopped it, it goes
	// on from the position that was returned, which means nothing else, and more
	// is false at its end. Values are the current ones; a deleted key has ok
	// false. Key and value are valid during the call of f. Setting a key during
	// the walk may add it at the end only if it was not dirty yet.
	Dirty(pos int, f func(key []byte, value []byte, ok bool) bool) (next int, more bool)
}

// Entry gives access to one entry by the position a Ref holds.
type Entry interface {
	Get(at uint64) (value []byte, ok bool)
	// Mutable returns n writable bytes that hold the old value, zero-extended,
	// and marks the entry changed.
	Mutable(at uint64, n int) []byte
	Delete(at uint64)
}

// Ref is one key of the last Batch.
type Ref struct {
	E  Entry
	At uint64
}

// Get returns the value, which must not be changed, and whether there is one.
func (r Ref) Get() ([]byte, bool) { return r.E.Get(r.At) }

// Mutable returns the value as n writable bytes, extended by zeros or cut, and
// marks it changed. The slice is valid until the next call on any Ref.
func (r Ref) Mutable(n int) []byte { return r.E.Mutable(r.At, n) }

// Set replaces the value.
func (r Ref) Set(v []byte) { copy(r.E.Mutable(r.At, len(v)), v) }

// Delete removes the key.
func (r Ref) Delete() { r.E.Delete(r.At) }

// Store is the keyed state of one operator's subtask as the engine drives it.
// All methods but those of the snapshots it returns run on the task goroutine.
type Store interface {
	Keyed
	// Snapshot seals the current epoch as id and opens the next: the quick part.
	// The copy-out of the epoch before must have ended (invariant 7); Snapshot
	// finishes it if it has not.
	Snapshot(id stream.CheckpointID) (Snapshot, error)
	// Slice copies out some of the sealed epoch's entries, for at most about
	// 100 microseconds, and reports whether there are more.
	Slice() (more bool, err error)
	// OverBudget reports that dirty entries fill the memory budget, so that a
	// checkpoint should be triggered now.
	OverBudget() bool
	Close() error
}

// Snapshot is what a component seals at a barrier.
type Snapshot interface {
	// Persist makes the snapshot durable and returns everything a restore at
	// this point needs. It runs off the task goroutine, to its end, and must not
	// wait for the task except for slices of the copy-out.
	Persist(ctx context.Context, up Uploader) ([]Handle, error)
	// Release ends the snapshot; see the package comment for persisted. It comes
	// before the Persist of the next snapshot.
	Release(persisted bool)
}

// Spec opens the keyed state of one operator on one subtask.
type Spec struct {
	Task      stream.TaskID
	KeyGroups stream.KeyGroupRange
	// MaxParallelism is the number of key groups of the job; 0 means
	// stream.DefaultMaxParallelism.
	MaxParallelism int
	Descriptors    []Descriptor
	Counters       *stream.Counters
}

// Restored is what a backend gets to load from a checkpoint: for each operator
// with keyed state the handles of all its subtasks at that checkpoint.
type Restored struct {
	ID      stream.CheckpointID
	Keyed   map[stream.UID][]Handle
	Objects Objects
}

// Backend keeps the keyed state of one process for one attempt.
type Backend interface {
	// Restore takes a checkpoint, or starts empty when r.ID is NoCheckpoint. It
	// is called once, before any Open. It loads the base, verified file by file,
	// and decides whether a local one may be used instead (invariant 19).
	Restore(ctx context.Context, r Restored) error
	// Open returns the store of one subtask, filled with what the checkpoint holds
	// of its key groups: it replays the segments after the base, and verifies
	// their checksums. Stores of different subtasks may be opened at once.
	Open(ctx context.Context, s Spec) (Store, error)
	// Completed says that checkpoint id is complete: epochs up to it may reach
	// the base. Any goroutine.
	Completed(id stream.CheckpointID)
	// Err returns a failure of background work, which ends the attempt.
	Err() error
	// Stats returns the counters of the process's state for telemetry.
	Stats() BackendStats
	Close() error
}

// BackendStats are counts since the backend was made.
type BackendStats struct {
	Materializations, SegmentsReplayed, EntriesReplayed int64
	BasesReused, BasesDiscarded                         int64
	Spilled, BaseReads                                  int64
	CacheBytes, BaseBytes, SegmentBytesSinceBase        int64
}
