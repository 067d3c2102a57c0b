package idempotent

import (
	"context"
	"time"

	"etl/checkpoint"
	"etl/stream"
)

// Store is a target as one subtask uses it. Open, Begin and Add are called by the task
// goroutine, Write by one other goroutine at a time.
type Store interface {
	// Open connects and checks what can be checked.
	Open(ctx context.Context, env stream.Env) error
	// Begin returns an empty batch.
	Begin() Rows
	Close() error
}

// Rows is a batch of rows on its way to a Store. Of several rows of a key the last one
// counts.
type Rows interface {
	// Add adds the row of a record and returns its size in bytes. It copies what it
	// needs. An error rejects the record, unless its class is Environment.
	Add(r *stream.Record, v Version) (size int, err error)
	// Len returns the number of rows.
	Len() int
	// Write writes all rows, in order, and returns when the store has acknowledged
	// them; the rows it refuses come back. It must not refuse a row for being old. An
	// error of class Retry says that the same call may succeed later; nothing says how
	// many of the rows were written.
	Write(ctx context.Context) ([]Rejected, error)
	// Free gives memory back.
	Free()
}

// Keeper is a Store that may forget what it has acknowledged.
type Keeper interface {
	// Keep is called after all rows up to checkpoint id are acknowledged. What it
	// returns is kept in the checkpoint.
	Keep(ctx context.Context, id stream.CheckpointID) (token []byte, err error)
	// Kept gets the tokens of the restored checkpoint, before the first row, and
	// returns an error of class DataLoss when the store has forgotten rows since.
	Kept(ctx context.Context, tokens [][]byte) error
}

// Config describes a sink. The zero value of a field means its default.
type Config struct {
	// Guard says where versions come from; default Counter.
	Guard Guard
	// BatchRows and BatchBytes bound a batch; defaults 16384 and 4 MiB.
	BatchRows, BatchBytes int
	// QueueBytes bounds the rows of one subtask that wait to be written; default
	// 16 MiB.
	QueueBytes int
	// Patience is how long a batch is tried again while the target is away; default
	// the timeout of checkpoints.
	Patience time.Duration
	// OnError is what becomes of a row that the target refuses; default Fail.
	OnError OnError
	// Policy is the job's; its zero fields have the policy's defaults.
	Policy checkpoint.Policy
}

// OnError is a component's policy, as the pipeline file words it.
type OnError string

// The policies. Under Fail a refused row ends the job before its checkpoint is complete:
// whoever mends the target starts again where it was. Under the others it is rejected.
const (
	Fail       OnError = "fail"
	Skip       OnError = "skip"
	DeadLetter OnError = "dead_letter"
)

// WithDefaults returns c with its zero fields filled in.
func (c Config) WithDefaults() Config {
	c.Policy = c.Policy.WithDefaults()
	if c.Guard == "" {
		c.Guard = Counter
	}
	if c.OnError == "" {
		c.OnError = Fail
	}
	if c.BatchRows == 0 {
		c.BatchRows = 16384
	}
	if c.BatchBytes == 0 {
		c.BatchBytes = 4 << 20
	}
	if c.QueueBytes == 0 {
		c.QueueBytes = 16 << 20
	}
	if c.Patience == 0 {
		c.Patience = c.Policy.Timeout
	}
	return c
}
