// Package state holds the contracts between operators, the backends that keep
// their state, and the checkpoints that make it durable. It has no behaviour of
// its own beyond the views that are the same on every backend.
//
// # The life of a snapshot
//
// A snapshot has a quick part and a slow part. The quick part runs on the task
// goroutine at the barrier and only swaps: its cost does not depend on the size
// of state or delta. The slow part, [Snapshot.Persist], runs in the background
// while the task goes on, and is over when the bytes are durable. In between the
// task copies dirty entries out in slices ([Store.Slice]), entry by entry before
// it changes them again.
//
//	barrier n --> Snapshot(n) --> forward barrier --> Slice ... Slice
//	                   \--> Persist (background) --> acknowledge --> Release
//
// Persist runs to its end, one snapshot at a time per store, in id order, and
// Release is always called exactly once, before the next Persist. Release(false) means that no
// acknowledgement of this snapshot will ever count: its changes go back to the
// dirty list and are part of the next segment.
//
// # The chain of changes
//
// What Persist returns is the whole list of handles from which the store can be
// restored at n: one base, or none, and the segments after it, each with the
// range of epochs (From, To] it covers. Segments belong to the chain of changes,
// not to a checkpoint: the segment of an aborted checkpoint stays in the chain
// (I7). A gap is a broken chain and is refused at publication.
//
// # The base
//
// Only epochs of completed checkpoints reach the base tier, so that it can always
// be reopened at the end of such an epoch. It is used after a restart only if its
// mark equals the end of a segment, id and object name, in the restored chain
// (I19).
package state
