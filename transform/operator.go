package transform

import (
	"context"

	"etl/state"
	"etl/stream"
)

// Env is what an operator is opened with.
type Env struct {
	stream.Env
	// Keyed is the operator's keyed state, nil when it declares none.
	Keyed state.Keyed
}

// Output takes what an operator emits. It appends and never blocks: the task
// hands the output on before it takes its next element, so that an operator may
// emit any number of records for one.
type Output interface {
	// Emit appends a record. Its bytes must live as long as Batch: copy into it
	// with Alloc or Copy what lies elsewhere.
	Emit(r stream.Record)
	// Batch returns the batch that Emit appends to, for its memory.
	Batch() *stream.Batch
	// EmitBatch passes a whole batch on and gives up a reference to it. Order
	// with Emit is kept.
	EmitBatch(b *stream.Batch)
	// Side emits to a side output: late records, a user's own tag. Its bytes are
	// copied.
	Side(tag stream.Tag, r stream.Record)
	// SideBatch passes a whole batch on to a side output and gives up a reference.
	SideBatch(tag stream.Tag, b *stream.Batch)
	// Reject hands over a record that could not be processed; the component's
	// on_error policy decides. The error names topic, partition and offset, never
	// the payload.
	Reject(r stream.Record, err error)
}

// Operator transforms batches. All calls come from one task goroutine, one at a
// time. An error ends the attempt.
//
// Process does not own b: the task releases it. An operator that emits records
// whose bytes lie in b emits them into b.Derive, or retains b.
type Operator interface {
	Open(ctx context.Context, env Env) error
	Process(ctx context.Context, b *stream.Batch, out Output) error
	Close() error
}

// The optional parts of an operator, found when the graph is built. Each is
// called again, with the output drained in between, while more is true.

// BeforeBarrier is called before the operator's state is sealed for checkpoint
// id: what it emits belongs to that checkpoint.
type BeforeBarrier interface {
	BeforeBarrier(ctx context.Context, id stream.CheckpointID, out Output) (more bool, err error)
}

// OnWatermark is called when the operator's watermark rises.
type OnWatermark interface {
	OnWatermark(ctx context.Context, wm stream.Watermark, out Output) (more bool, err error)
}

// EndInput is called when a port has ended for good.
type EndInput interface {
	EndInput(ctx context.Context, port stream.Port, out Output) (more bool, err error)
}

// Stateful declares keyed state. A stateful operator stands behind a rekey.
type Stateful interface {
	Descriptors() []state.Descriptor
}

// Description is an operator as a value: Filter, Map, Aggregate and others are
// descriptions, and so is a user's own operator.
type Description interface {
	// OutputSchema returns the schema of what the operator emits for records of in.
	OutputSchema(in *stream.Schema) (*stream.Schema, error)
	// New makes one operator for one task. One that keeps keyed state also has the
	// method Descriptors on its description (see Stateful).
	New() Operator
}
