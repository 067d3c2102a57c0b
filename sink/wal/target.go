package wal

import (
	"context"
	"encoding/json"
	"time"

	"etl/checkpoint"
	"etl/sink"
	"etl/stream"
)

// Target is one kind of outside that the log is delivered to.
type Target interface {
	// Kind names its rows and its committables, "wal-postgres"; it never changes.
	Kind() string
	Features() sink.Features
	// NewFront returns phase one of a subtask, NewBack phase two of the sink.
	NewFront() Front
	NewBack() Back
}

// Front makes rows of records, for one subtask.
type Front interface {
	Open(ctx context.Context, env stream.Env) error
	// Begin returns an epoch without rows.
	Begin() (Epoch, error)
	Close() error
}

// Epoch is the rows between two barriers. Until it is sealed the task goroutine owns it,
// afterwards whoever finishes it.
type Epoch interface {
	// Add adds the row of a record and returns its size in bytes; the record's bytes are
	// not needed afterwards. An error of class Environment ends the attempt, any other
	// one rejects the record.
	Add(r *stream.Record, b *stream.Batch) (size int, err error)
	// Rows is the number of rows there are to deliver.
	Rows() int64
	// Plan is what the Back needs besides the rows. It must depend on nothing that may
	// change before the delivery: secrets and addresses are the Back's own.
	Plan() (json.RawMessage, error)
	// Segments calls f with the rows in order, as bodies of segments. A body is valid until
	// f returns.
	Segments(f func(rows int, body []byte) error) error
	Free()
}

// Back delivers epochs, and proves what it has delivered. Calls for different lanes may
// overlap.
type Back interface {
	Open(ctx context.Context, env sink.CommitEnv) error
	// Probe looks at one epoch without changing anything. What lies in the log can be
	// delivered, so Gone is no answer.
	Probe(ctx context.Context, e *Entry, published time.Time) (sink.Probed, error)
	// Marker is that of sink.Committer.
	Marker(ctx context.Context, subtask int) (stream.CheckpointID, error)
	// Deliver makes the rows of one epoch visible, once or again. It reads the marker
	// before the rows: what was delivered needs no segments.
	Deliver(ctx context.Context, e *Entry) (sink.Result, error)
	// Fence makes sure that nothing the owners still do becomes visible, on lanes below
	// subtasks at least.
	Fence(ctx context.Context, owners []stream.Attempt, keep []*Entry) error
	Inspect(ctx context.Context) ([]sink.InDoubt, error)
	// Retired says that nobody will ask about checkpoints before id of a subtask again.
	Retired(subtask int, id stream.CheckpointID)
	Close() error
}

// payload is the committable's payload.
type payload struct {
	// PreparedMillis is when the epoch was finished, by the job's clock: no delivery was
	// made before.
	PreparedMillis int64 `json:"prepared_ms"`
	// Bytes is the size of the segments.
	Bytes int64 `json:"bytes"`
	// Plan is the target's.
	Plan json.RawMessage `json:"plan"`
}

// Entry is one epoch in the log.
type Entry struct {
	checkpoint.Committable
	Prepared time.Time
	Bytes    int64
	Plan     json.RawMessage

	objects reader
}
