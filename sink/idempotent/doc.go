// Package idempotent is what every sink shares that writes rows by key at once and makes
// repeating them harmless: after a failure the rows behind the restored checkpoint are
// written again, and in the end each key has the value that exactly-once would give it.
//
// # Protocol
//
//	task goroutine   Write Write | PrepareCommit(n) | Write ...      fills batches
//	sender           writes batches one after the other, in order
//	background                    \ Finish(n): waits until all rows up to n are acknowledged
//
// There is nothing to commit: no committable, no marker that proves a commit, no fence.
// Readers see rows before their checkpoint is complete. A batch goes out as soon as the
// one before it is acknowledged, so batches are as large as the target is slow. Write
// waits when more than Config.QueueBytes wait: that is the job's back-pressure.
//
// # The guard
//
// Without more, a replay writes the values of a key again from the restored checkpoint on,
// and a reader sees an older value for a while. So rows carry a [Version], and the target
// refuses one that is older than what it has. Equal versions are accepted: a replay may
// give an update another value when it takes the records of two partitions in another
// order, and the last one is the right one then.
//
//	counter    the number of records of the key so far, kept in keyed state and so
//	           restored with the checkpoint (stream.Record.Version)
//	position   the offset of the record; only for rows whose key lives in one partition
//	none       no guard
//
// A version counts within its scope: a lineage, and for positions the partition. A row of
// another scope is accepted, whatever its number: a new life of the job counts from the
// beginning, and its values are newer than what a former life has left.
//
// # What must hold
//
// The pipeline gives a key the same values again in a replay; the planner refuses one that
// need not. A stalled process of an earlier attempt may still write: with a guard that is
// harmless, because what it writes is older; without, an older value may stay until the
// key is written again.
//
// # Loss
//
// What the target acknowledged it must keep. One that may forget (a store in memory)
// implements [Keeper]: after the rows of a checkpoint it is given the checkpoint's id, and
// a restart that does not find it there again stops instead of going on (I13).
//
// Rows that the target refuses are kept in the checkpoint and rejected at the next barrier.
package idempotent
