// Package wal writes rows through a write-ahead log: the rows of an epoch are stored as
// segments of its checkpoint, and are delivered once the checkpoint is published. It is
// for outsides that cannot prepare anything, or not for long enough: an HTTP endpoint, a
// Postgres that allows no prepared transactions, a Kafka that may be away for longer than
// its transactions live.
//
//	task goroutine   Write Write | PrepareCommit(n) | Write ...    rows are encoded and kept
//	background                    \ Finish(n): segments are uploaded, the committable names them
//	ledger's lanes                             publish n ... Deliver(n) ... Resolved(n)
//
// A [Target] is one kind of outside. Its [Front] turns records into rows, its [Back]
// delivers the rows of one epoch.
//
// # What a delivery gives
//
// The window of every log is between the delivery and the note that it was made: whoever
// dies there delivers again. Two kinds of targets differ in what happens then.
//
//	holds a marker   rows and marker, the checkpoint id, become visible in one transaction
//	                 of the outside. The second delivery finds the marker and does nothing:
//	                 exactly once. (Postgres, Kafka)
//	repeats          nothing can be asked. The second delivery is made again, with the same
//	                 Idempotency-Key: at least once, and an endpoint that remembers keys
//	                 makes it once. (HTTP)
//
// The same marker closes the second window, in which the note itself is lost with the
// checkpoint that carried it: V4 reads the markers of all lanes, and a checkpoint that the
// outside is ahead of is not restored.
//
// # Why rows cannot be lost
//
// Segments are durable before the epoch is acknowledged. Nothing expires: no deadline, no
// lock, no transaction stays open between the phases, so the outside may be away for as
// long as it likes. An aborted checkpoint leaves its segments where they are, and the next
// checkpoint lists them (I7). An epoch is delivered whole before the next one of its lane
// begins (I5), so the order of a subtask is kept.
//
// # The log is bounded
//
// Options.MaxLog bounds what is published and not delivered, over all subtasks of a
// process, what a restart found included. Write waits beyond it: the job reads no faster
// than the outside takes. Only published rows count, because only they go away by
// themselves; the wait never depends on a barrier that waits behind it.
//
// The format of segments is docs/formats/wal.md.
package wal
