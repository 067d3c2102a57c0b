// Package sink holds the contract between a job and what it writes to, and the
// ledger of what has been prepared and not yet resolved.
//
// A sink has two halves. A Writer, one per subtask, writes rows and prepares them
// at barriers: after its Pending has finished, a crash loses nothing. A Committer
// finishes prepared work from plain data, on any process, any number of times:
// committing twice equals committing once (I10). Between the two stands the
// publication of the checkpoint: no commit without a permit (I5).
//
//	Write ... Write | PrepareCommit(n) | Write ...            task goroutine
//	                       \ Finish(n) -> acknowledge          background, in id order
//	                            publish n -> Permit -> Commit   lane of (sink, subtask)
//	                                              Resolved(n)   task goroutine
//
// A sink written outside this repository implements Writer and Committer and runs
// the suite in sink/sinktest.
package sink

import (
	"context"
	"time"

	"etl/checkpoint"
	"etl/state"
	"etl/stream"
)

// Output takes the rows a writer could not write; the component's on_error
// policy decides what becomes of them.
type Output interface {
	Reject(r stream.Record, err error)
}

// Writer is phase one of a sink on one subtask. All calls come from the task
// goroutine, except those of the Pendings it returns, and Published and Resolved:
// these come from the ledger at any time, even while a Write waits for them, and
// must return at once.
type Writer interface {
	// Open gets the writer state of the restored checkpoint, the bytes in the handles. With
	// another number of subtasks it may be that of several, or none.
	Open(ctx context.Context, env stream.Env, restored []state.Handle) error
	// Write takes over one reference to b and releases it when its rows need its
	// bytes no more; it reads the records themselves before it returns. It may
	// wait: that is the job's back-pressure.
	Write(ctx context.Context, b *stream.Batch, out Output) error
	// PrepareCommit seals the epoch of checkpoint id and opens the next one; it is
	// quick. It first emits the rejects that earlier Finishes found.
	PrepareCommit(ctx context.Context, id stream.CheckpointID, out Output) (Pending, error)
	// Published says that checkpoint id is published: its rows belong to the log
	// now, and buffers of rows up to id may go.
	Published(id stream.CheckpointID)
	// Resolved says that everything up to id is committed and verified. retired
	// says that a later complete checkpoint no longer lists it, so that nobody
	// will ever ask about it again.
	Resolved(id stream.CheckpointID, retired bool)
	// Aborted says that id can never be published. It comes after Finish(id) has
	// returned and before any later PrepareCommit.
	Aborted(ctx context.Context, id stream.CheckpointID) error
	// Close frees resources. It never ends a transaction.
	Close() error
}

// Pending is the slow part of a prepare.
type Pending interface {
	// Finish flushes and prepares; after it a crash loses nothing. It runs to its
	// end off the task goroutine, one at a time per subtask, in id order. An error
	// ends the attempt: rows may be lost (I8).
	Finish(ctx context.Context, up state.Uploader) (Prepared, error)
}

// Prepared is what a Finish has made.
type Prepared struct {
	Committables []checkpoint.Committable
	// Replaces are earlier checkpoints whose rows this one prepared again; their
	// committables are gone and must no longer be listed.
	Replaces []stream.CheckpointID
	// State is the writer's own state for the next Open: rows found bad, for example,
	// that the next PrepareCommit rejects.
	State []state.Handle
	// More says that State holds rows that only a later checkpoint writes: a job
	// that ends takes another final checkpoint then (I17).
	More bool
}

// Status is what a read-only look tells about one committable.
type Status uint8

const (
	// Unknown: nothing proves anything, and nothing may be done automatically.
	Unknown Status = iota
	// Open: not committed, and committable.
	Open
	// Committed: the marker, or the outside system itself, proves it.
	Committed
	// Gone: proven not committed and not committable any more.
	Gone
)

// String returns the status's name in messages.
func (s Status) String() string {
	return [...]string{"unknown", "open", "committed", "gone"}[s]
}

// Probed is the answer of Probe for one committable.
type Probed struct {
	Status Status
	// Marker is the newest checkpoint the marker of the lane proves committed;
	// NoCheckpoint for none. It may be ahead of the committable.
	Marker stream.CheckpointID
	// Deadline is when the outside system gives the transaction up; zero: never.
	Deadline time.Time
	// Detail says what was seen, for messages.
	Detail string
}

// Outcome is how a commit ended.
type Outcome uint8

const (
	// Transient: nothing is known; the same call may be made again.
	Transient Outcome = iota
	// Done: committed and verified by this call, as far as the outside can tell.
	Done
	// Already: it had been committed before, by anybody.
	Already
	// NotVisible: committed, but readers cannot see it and this job lacks the
	// right to repair it. The lane stops.
	NotVisible
	// Lost: proven neither committed nor committable.
	Lost
	// Undecided: neither committed nor lost can be proven.
	Undecided
)

// String returns the outcome's name in metrics and messages.
func (o Outcome) String() string {
	return [...]string{"transient", "committed", "already_committed", "not_visible", "lost", "unknown"}[o]
}

// Result is the answer of Commit.
type Result struct {
	Outcome Outcome
	// Healed says that markers the outside system had skipped were written.
	Healed bool
	// ByMarker says that only the marker told that it was committed.
	ByMarker bool
	// Rejects is the number of rows that the outside refused now that their checkpoint
	// is published; they are kept where the sink says.
	Rejects int64
	// Detail says what was seen, for messages.
	Detail string
}

// CommitEnv is what a committer is opened with.
type CommitEnv struct {
	stream.World
	Job      string
	Lineage  stream.Lineage
	Attempt  stream.Attempt
	UID      stream.UID
	Listener *stream.Listener
	// Objects reads the rows of committables that lie in checkpoint storage.
	Objects state.Objects
	// Owners are the earlier attempts of the lineage, lowest first.
	Owners []stream.Attempt
	// Fresh says that the lineage has published nothing yet: what sinks hold of the
	// job is of another life. There may have been attempts, which were refused.
	Fresh bool
}

// Committer is phase two of a sink: idempotent, and independent of any process
// that wrote. Probe and Inspect only read. Calls for different lanes may overlap.
type Committer interface {
	Open(ctx context.Context, env CommitEnv) error
	// Probe looks at committables without changing anything. published is when
	// the checkpoint that lists them was published: markers are evidence only
	// while they cannot have expired since (I10).
	Probe(ctx context.Context, cs []checkpoint.Committable, published time.Time) ([]Probed, error)
	// Marker returns the newest committed checkpoint of a lane, in this lineage,
	// NoCheckpoint for none, and refuses (RestoreRefused) a marker of another
	// lineage (I12). It only reads.
	Marker(ctx context.Context, subtask int) (stream.CheckpointID, error)
	// Commit commits, verifies and heals. It refuses a committable that p does
	// not cover. Errors other than those a Result can say end the attempt.
	Commit(ctx context.Context, p checkpoint.Permit, c checkpoint.Committable) (Result, error)
	// Fence aborts and cleans what the owners left, except keep. It touches
	// nothing else: owners are earlier attempts in the log, or the own attempt
	// when a job is cancelled.
	Fence(ctx context.Context, owners []stream.Attempt, keep []checkpoint.Committable) error
	// Inspect lists what is in doubt outside under this job and sink, read-only.
	Inspect(ctx context.Context) ([]InDoubt, error)
	Close() error
}

// InDoubt is one prepared or open transaction found outside.
type InDoubt struct {
	ID         string
	Attempt    stream.Attempt
	Subtask    int
	Checkpoint stream.CheckpointID // NoCheckpoint when the outside does not tell
	State      string
	Age        time.Duration
	// Left is the time until the outside gives it up by itself; 0: never, or not known.
	Left   time.Duration
	Detail string
}

// Features say what a sink can do; the planner and the conformance suite read
// them.
type Features struct {
	// Transactional: rows become visible all at once at commit.
	Transactional bool
	// Marker: the outside holds a proof of commit.
	Marker bool
	// MarkerStays: the newest one of a lane is never removed, nor does it expire: one that
	// is missing proves that the outside has lost what it had committed.
	MarkerStays bool
	// OneInFlight: a subtask prepares the next epoch only after the last one is
	// committed.
	OneInFlight bool
	// Ordered: readers see the rows of a key in the order they were written.
	Ordered bool
	// Repeats: what became of a commit whose answer was lost cannot be asked, so that it
	// is made again.
	Repeats bool
	// Deferred: what is prepared never expires and holds nothing outside, so that a
	// restart leaves it to the lanes and reads on (V5).
	Deferred bool
	// Guarded: rows are visible before their checkpoint is complete, and a replay never
	// shows an older one of a key in the place of a newer one.
	Guarded bool
	// Upsert, AppendOnly, NeedsKey describe the rows it takes.
	Upsert, AppendOnly, NeedsKey bool
	// Timeout is how long a prepared transaction lives; 0 for ever.
	Timeout time.Duration
}

// Connector makes the parts of one sink: what a program plugs into a pipeline.
type Connector interface {
	NewWriter() Writer
	// NewCommitter returns nil for a sink that commits nothing.
	NewCommitter() Committer
	Features() Features
}
