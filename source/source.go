// Package source holds the contract between a job and what it reads from.
//
// An Enumerator, one per source and run in the coordinator, finds the splits: at
// the very first start it resolves where they begin (and, for a bounded read,
// end), so that checkpoint 0 fixes the answer before the first record is read;
// later it finds new ones, which begin at earliest. Readers, one per subtask,
// read the splits they are given. Positions come only from checkpoints (I14).
package source

import (
	"context"

	"etl/checkpoint"
	"etl/stream"
)

// Env is what a reader is opened with.
type Env struct {
	stream.Env
	// Schema is that of the batches the reader must emit.
	Schema *stream.Schema
}

// Enumerator finds the splits of one source. Its calls never overlap, but for
// Report.
type Enumerator interface {
	Open(ctx context.Context, env stream.Env) error
	// Discover returns splits that are not in known. With known empty it returns
	// the first splits of a fresh job with their resolved starts and ends; later
	// ones start at earliest. It verifies known against the servers: a recreated
	// topic, shrunk partitions or a position outside the log is an error with the
	// facts, and nothing is dropped because it is missing at the moment.
	Discover(ctx context.Context, known []stream.Split) (add []stream.Split, err error)
	// Report tells the source's consumer group how far the job has come, for lag
	// tools only; it does nothing when there is no group. It may run beside Discover.
	Report(ctx context.Context, permit checkpoint.Permit, splits []stream.Split) error
	Close() error
}

// Reader reads the splits of one subtask on the task goroutine; Wake alone may be
// called from others.
type Reader interface {
	Open(ctx context.Context, env Env, splits []stream.Split) error
	// Assign adds splits, between Polls.
	Assign(add []stream.Split) error
	// Poll returns the next element and gives up its reference: a batch of one
	// split, or EndOfInput once when every split has been read to its end. It
	// returns nil, nil after Wake when nothing is there yet, and an error that ends
	// the attempt.
	Poll(ctx context.Context) (stream.Element, error)
	// Wake makes the running, or else the next, Poll return soon: a barrier or an
	// assignment waits.
	Wake()
	// Splits returns the current positions: the offsets after everything that
	// Poll has returned, for every split the reader holds. This is the source's
	// snapshot; it is taken between Polls, before the barrier is emitted.
	Splits() []stream.Split
	Close() error
}

// Connector makes the parts of one source: what a program plugs into a pipeline.
type Connector interface {
	NewEnumerator() Enumerator
	NewReader() Reader
	// Bounded reports whether the source ends.
	Bounded() bool
}
