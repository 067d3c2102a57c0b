package stream

import (
	"sync/atomic"
	"time"
)

// Listener is told what the engine does. Every field may be nil, and a nil
// *Listener is silent. Calls come from engine goroutines, are made once per
// checkpoint, recovery step or batch, never per record, and must return at once.
type Listener struct {
	// Step is called at every numbered step of the journeys (R1, B4, V5...; see
	// ARCHITECTURE.md). id is NoCheckpoint where no checkpoint is concerned.
	Step func(step string, task TaskID, id CheckpointID)
	// Checkpoint is called when a checkpoint is triggered, published, aborted, its
	// commits are confirmed, or an attempt goes on from it.
	Checkpoint func(CheckpointEvent)
	// Part is called when one timed part of a checkpoint on a subtask is over.
	Part func(PartEvent)
	// Write is called for each batch that a sink has taken, on the task's goroutine.
	Write func(WriteEvent)
	// State is called for a few of the accesses to keyed state.
	State func(StateEvent)
	// Transaction is called when a sink's transaction changes its state.
	Transaction func(TransactionEvent)
	// Commit is called for each commit that came to an end.
	Commit func(CommitEvent)
	// Report is called when a source has told, or could not tell, its consumer group
	// how far the job has come.
	Report func(ReportEvent)
	// Job is called when the job changes its phase.
	Job func(JobEvent)
	// Task is called when a subtask is opened, with its counters.
	Task func(id TaskID, kind string, c *Counters)
}

// CheckpointEvent is one turn in the life of a checkpoint.
type CheckpointEvent struct {
	ID    CheckpointID
	Kind  BarrierKind
	Phase string // triggered | published | aborted | confirmed | restored
	At    time.Time
	// Duration is the time since the trigger; Alignment the longest alignment of
	// a subtask; Sync the longest quick part.
	Duration, Alignment, Sync time.Duration
	// Delta is what this checkpoint wrote, Size what a restore would read, bytes.
	Delta, Size int64
	// Splits are where a restore reads on, by source: published and restored ones only.
	Splits map[UID][]Split
	// Reason is why it was aborted: one of checkpoint.Reason; Err the cause.
	Reason string
	Err    error
}

// PartEvent is one timed part of a checkpoint on one subtask.
type PartEvent struct {
	// Part is start_delay (the trigger to the first barrier), align (the first barrier
	// to the last), snapshot (the quick part), pre_commit (a sink's Finish) or upload
	// (making the snapshot durable).
	Part  string
	Task  TaskID
	ID    CheckpointID
	Begin time.Time
	Took  time.Duration
}

// WriteEvent is one Write of a sink.
type WriteEvent struct {
	Task    TaskID
	Records int
	Took    time.Duration
}

// StateEvent is one access to keyed state.
type StateEvent struct {
	Task TaskID
	Op   string // read: the look-up of a batch of keys | write: the change of a key
	Took time.Duration
}

// The states of a sink's transaction: what a lane has to commit of one checkpoint.
const (
	// TransactionOpen: it takes rows, and the checkpoint has no id yet.
	TransactionOpen = "open"
	// TransactionFlushed: its barrier has come, and it is being prepared.
	TransactionFlushed = "flushed"
	// TransactionPrepared: it waits for the publication of a checkpoint, or for its
	// commit.
	TransactionPrepared = "prepared"
	// TransactionEnded: it is committed, or another one has taken its rows over, or
	// there was nothing to commit.
	TransactionEnded = "ended"
)

// TransactionEvent is a change in the life of a sink's transaction.
type TransactionEvent struct {
	Task  TaskID       // the lane
	ID    CheckpointID // NoCheckpoint while it is open
	State string
	// Begun is when it began, or the earliest time known to be after that: open and
	// prepared ones only.
	Begun time.Time
	// Logged is the size of its rows in checkpoint storage: prepared ones of sinks that
	// deliver from there.
	Logged int64
}

// CommitEvent is the end of one commit of one committable.
type CommitEvent struct {
	Task    TaskID
	ID      CheckpointID
	Outcome string // committed | already_committed | transient | not_visible | lost | unknown
	// Recovery says that it was committed on behalf of an earlier attempt;
	// Healed that markers the broker had skipped were written; ByMarker that
	// only the marker told.
	Recovery, Healed, ByMarker bool
	Rows                       int64
	Duration                   time.Duration
}

// ReportEvent is one report of a source to its consumer group.
type ReportEvent struct {
	Source UID
	ID     CheckpointID
	Err    error // nil when it succeeded
}

// JobEvent is a change of the job's phase.
type JobEvent struct {
	Phase   string // restoring | running | draining | restarting | failed | stopped | fenced
	Attempt Attempt
	// Restored is the checkpoint the attempt began from.
	Restored CheckpointID
	Err      error
	At       time.Time
}

// Did calls Step if anybody listens.
func (l *Listener) Did(step string, task TaskID, id CheckpointID) {
	if l != nil && l.Step != nil {
		l.Step(step, task, id)
	}
}

// OnCheckpoint calls Checkpoint if anybody listens.
func (l *Listener) OnCheckpoint(e CheckpointEvent) {
	if l != nil && l.Checkpoint != nil {
		l.Checkpoint(e)
	}
}

// OnPart calls Part if anybody listens.
func (l *Listener) OnPart(e PartEvent) {
	if l != nil && l.Part != nil {
		l.Part(e)
	}
}

// OnWrite calls Write if anybody listens.
func (l *Listener) OnWrite(e WriteEvent) {
	if l != nil && l.Write != nil {
		l.Write(e)
	}
}

// OnState calls State if anybody listens.
func (l *Listener) OnState(e StateEvent) {
	if l != nil && l.State != nil {
		l.State(e)
	}
}

// OnTransaction calls Transaction if anybody listens.
func (l *Listener) OnTransaction(e TransactionEvent) {
	if l != nil && l.Transaction != nil {
		l.Transaction(e)
	}
}

// OnCommit calls Commit if anybody listens.
func (l *Listener) OnCommit(e CommitEvent) {
	if l != nil && l.Commit != nil {
		l.Commit(e)
	}
}

// OnReport calls Report if anybody listens.
func (l *Listener) OnReport(e ReportEvent) {
	if l != nil && l.Report != nil {
		l.Report(e)
	}
}

// OnJob calls Job if anybody listens.
func (l *Listener) OnJob(e JobEvent) {
	if l != nil && l.Job != nil {
		l.Job(e)
	}
}

// OnTask calls Task if anybody listens.
func (l *Listener) OnTask(id TaskID, kind string, c *Counters) {
	if l != nil && l.Task != nil {
		l.Task(id, kind, c)
	}
}

// Counters are the running numbers of one subtask. Its goroutine adds to them
// once per batch; readers load them from telemetry callbacks.
type Counters struct {
	RecordsIn, RecordsOut, BytesIn, BytesOut atomic.Int64
	Rejects                                  Rejects
	// BusyNanos, BlockedNanos (back-pressured) and IdleNanos sum to the time
	// since the task started.
	BusyNanos, BlockedNanos, IdleNanos atomic.Int64
	// QueueFill returns the share of the room for elements on their way to the task
	// that is taken, of the fullest input: at 1 a sender has to wait. Any goroutine may call it. It is
	// set before Task is called, for the first component of a chain with inputs.
	QueueFill func() float64
	// StateKeys and StateBytes describe the keyed cache; Spilled counts entries
	// that left it for the base tier.
	StateKeys, StateBytes, Spilled atomic.Int64
	// Uncommitted is the number of rows that readers cannot see yet.
	Uncommitted atomic.Int64
	Watermark   atomic.Int64
}
