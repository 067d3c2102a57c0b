// Package checkpoint holds the protocol that makes a job exactly-once: the
// coordinator and the aligner, which are pure state machines; the runner, their
// only shell; the contested log, which decides who owns a job and which
// checkpoint is published; the metadata of a checkpoint; the permit without
// which nothing is committed outside; and the contract of the storage below.
//
// The algorithm is asynchronous barrier snapshotting (Carbone et al. 2015, as
// Apache Flink does it), with two-phase commit of the sinks tied to publication.
//
//	coordinator          tasks                        log            sinks
//	B1 decide ---------> B2 sources inject
//	                     B3 align, B4 quick snapshot
//	                     B5 forward, B6 persist
//	B7 acknowledged <---
//	B8 ------------------------------------> append
//	B9 permit <-----------------------------
//	B10 ----------------------------------------------------> commit in lanes
//	B11 confirmed, subsumed <-------------------------------- verified
//
// # Invariants
//
// Asserts, tests and comments in the whole project cite these numbers as I1..I19.
//
//  1. On an edge, barrier ids strictly increase; no batch straddles one.
//  2. Snapshot n holds the effect of exactly the elements before barrier n on
//     every input (aligned), or those plus captured in-flight data (unaligned). A
//     checkpoint cuts only between source records, after everything that was
//     derived from the earlier one.
//  3. The barrier is forwarded after the quick part (BeforeBarrier down the
//     chain, PrepareCommit, then all snapshots) and before the slow part ends.
//  4. The log is the only decision point. Published entries and objects are
//     immutable; there is no movable "latest" pointer.
//  5. No external commit without a Permit that covers it. Commits run in id order
//     in one lane per (sink, subtask); a lane does not commit n+1 while n is
//     unresolved; lanes never wait for each other.
//  6. Metadata n lists every committable with an id up to n that was not resolved
//     when it was built, less those replaced. Acknowledgements go in id order;
//     acknowledgement n+1 implies that all staged up to n is durable. A late
//     acknowledgement of an aborted n is recorded, never dropped.
//  7. Abort of n loses nothing: segments belong to the chain of changes, each with
//     its epoch range (from, to]; metadata lists a gapless chain, publication
//     refuses a gap; the copy-out of n ends before the freeze of n+1. Prepared
//     transactions of n stay and are listed by n+1, or are rolled back and prepared
//     again by n+1, which then says that it replaces n.
//  8. Only failures that lost nothing are tolerable: an upload, a time-out, a
//     decline, an append not yet issued. A failed produce promise, a lost COPY, a
//     failed copy-out end the attempt.
//  9. Publish only if the earliest deadline of the listed committables is further
//     away than the drain; otherwise end the attempt: restarting from the last
//     checkpoint is exact.
//  10. Committing twice equals committing once. Every sink transaction carries a
//     marker (lineage, attempt, job, sink, subtask, checkpoint id). "Fenced",
//     "unknown", "does not exist" prove nothing; only the marker does, lineage
//     compared first, and only while it cannot have expired (publish time in the
//     metadata + the store's retention); otherwise the outcome is Unknown: stop,
//     nothing automatic.
//  11. Resolution is durable: metadata n+1 carries it per (sink, subtask); recovery
//     appends confirmed before it fences; a clean exit appends it before exit 0.
//     Resolved committables are never asked about again.
//  12. Every id, gid, part file and staged row carries lineage and attempt.
//     Fencing, rollback, cleaning and dropping touch only a lower attempt of the
//     same lineage, job and sink, parsed exactly; what a zombie still does under
//     its old ids is aborted by a background sweep. A fresh lineage that finds
//     another lineage's markers for the same job and sink refuses to start without
//     a flag.
//  13. Lost stops the job with a typed error naming checkpoint, sink and source
//     ranges (exit 5). Never continue silently.
//  14. Positions come only from the checkpoint. If any checkpoint exists, starting
//     empty needs an explicit flag. A restored offset outside the topic, a
//     recreated topic (topic id), or shrunk partitions stop the job with the facts.
//  15. Within one partition of a sink, records keep their order: epoch n+1 is sent
//     there only after all of n there are acknowledged; until then its rows wait in
//     a bounded hold queue, and the barrier never waits for that queue.
//  16. After any fatal error nothing more of that attempt is processed; its clients
//     are closed and goroutines joined before the next attempt opens, or the
//     process exits. A producer with an unconfirmed EndTxn is never reused. A failed
//     fsync is fatal, never retried.
//  17. End of bounded input and stop take a final checkpoint, resolve and confirm
//     it before exit 0; it is repeated while rejects are pending; failing more than
//     tolerable_failures: sources stay frozen, exit 1 saying what is published and
//     unconfirmed. Cancel and the second signal end the attempt's own open
//     transactions, committing what is published. on_cancel: delete only after all is confirmed.
//  18. Objects are deleted only when no retained metadata, savepoint, open ledger
//     entry or running attempt reaches them.
//  19. The local base is used only if its mark equals the end (id and object name)
//     of a segment in the restored chain; else it is discarded and the remote one
//     loaded.
package checkpoint
