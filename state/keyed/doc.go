// Package keyed is the keyed cache: where the state of a keyed operator lives
// while its task works on it, and where snapshots of it are cut. It is the whole
// of the memory backend, and the upper tier of the pebble backend.
//
// # The cache
//
// There is one [Store] per operator subtask, used by its task goroutine alone: no
// lock, no shared map. An index of open addressing points at entries, which lie
// outside the Go heap in segments of 4 MiB and are changed in place. Access is by
// batch, in groups of 64 keys: all index slots are asked for, then all entries,
// then all are used, so that the processor waits for memory once per group and
// not once per record. That makes it two to three times as fast as a Go map.
//
//	index page ---> entry: | epoch | ... | key | value |
//	                           \--> which snapshots still need it
//
// # Epochs
//
// Between two barriers lies an epoch. An entry bears the number of the epoch in
// which it was last changed; its first change in an epoch puts it on the epoch's
// dirty list. A barrier swaps the list and raises the number, whatever the size
// of state or change. Then the entries on the sealed list are copied out, in
// slices between batches; one that is changed before its turn is copied first, as
// it was (its pre-image). The copy-out of n ends before the freeze of n+1 (I7).
//
// The same tag says what the base does not have: an entry whose epoch is later
// than the last one that was applied. When the base shall catch up, the next
// barrier's copy-out goes along all memory, in the order of addresses, and takes
// those entries, too. So however many epochs the base is behind, what is waiting
// for it is at most every key once.
//
// # Snapshots
//
// Off the task goroutine, what was copied out is grouped by key group and written
// as one segment (docs/formats/segment.md). A snapshot is the whole chain: base,
// if there is one, and the segments after it, without a gap and up to its own id;
// an empty change gives a segment without entries. Changes whose snapshot came to
// nothing stay where they are and become part of the next segment. A chain that
// has grown long begins anew with a full segment, or on a new base.
//
// # Memory
//
// The stores of a process share a [Budget]. With a [Tier] below, entries that the
// base has as they are leave memory, the ones not used for a while first; a miss
// then reads through, once for all that miss in a group, and an absent key stays
// known as absent. As long as nothing has left, a miss means absent and nothing
// below is asked. Where the budget is full of entries that the base may not have
// yet, because no checkpoint with them is complete, [Store.OverBudget] asks for a
// checkpoint; beyond an eighth over the budget they go to a scratch that does not
// outlive the process, and never to the base.
//
// # Goroutines
//
// All methods of Store belong to the task goroutine, all of a snapshot to the one
// that persists. Between them lie: the sealed epoch, which the task owns until
// its copy-out has ended and which is only read after; the chain, under a lock;
// and the number of the applied epoch, which the tier raises.
package keyed
