// Package pipeline runs a graph of sources, operators and sinks as one job: it
// plans tasks, connects them, drives records and barriers through them, and
// restores, supervises and ends attempts. It also holds the Go builder for such
// graphs.
//
// # Tasks and chains
//
// Components connected without a rekey are chained: they run in one task, on one
// goroutine, by function calls. A rekey, a change of parallelism or a second input
// makes an exchange: batches coalesced per target and flushed before every
// barrier and watermark, into the target task's one inbox, with credits per
// input. Nothing on the two sides of an exchange shares memory.
//
//	source task 0: reader -> decode -> filter ==exchange==> task 0: aggregate -> writer
//	source task 1: reader -> decode -> filter ==exchange==> task 1: aggregate -> writer
//
// task.go is the only place that takes an element and decides by its type.
//
// # Goroutines of an attempt
//
// One per task (the task goroutine: reader, operators, stores and writers are
// called on it); one per task for the slow part of snapshots (the persister, in
// id order); the runner's loop and its scribe (package checkpoint); one per lane
// with commits to make (sink.Ledger); one for discovery of new splits. All end,
// and are joined, before the next attempt opens (I16).
//
// # Errors
//
// The first error of any of them cancels the attempt with that error as cause.
// Job.Run restarts attempts whose error is of class Restart, after an exponential
// pause, and returns every other.
package pipeline
