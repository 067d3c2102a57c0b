// Package statetest is the conformance suite of state backends. A backend passes
// it when, whatever happens in whatever order, every published checkpoint gives
// back exactly what its barriers cut:
//
//	Run(t, statetest.Features{Name: "memory", New: ...})
//
// The heart is a model test: random batches, sets, growth, deletes, barriers,
// slices, uploads that fail, aborted checkpoints, late and lost notifications,
// crashes, restores from any retained checkpoint and with any parallelism, all
// against a plain Go map. Every retained checkpoint must be restorable at any
// time, on this machine's disk and on an empty one; objects that no retained
// checkpoint lists are deleted, so that a backend that lists one again is caught.
//
// A suite that cannot fail proves nothing: the package's own tests run it against
// an oracle with one rule broken at a time, and it must notice each.
package statetest

import (
	"testing"

	"etl/state"
	"etl/stream"
)

// Features describe a backend to the suite.
type Features struct {
	// Name is the backend's word in messages.
	Name string
	// New makes the backend of an attempt in a world.
	New func(t testing.TB, w *World) state.Backend
	// NewDisk returns an empty disk, and Crash what is on it after the process
	// has died. A backend without a disk leaves both nil.
	NewDisk func(t testing.TB) any
	Crash   func(t testing.TB, disk any) any
	// Settle waits until background work has come to rest, so that runs differ
	// less; it may be nil.
	Settle func(b state.Backend)
	// Step lets a backend that does nothing in the background by itself do the next
	// thing, and says whether there was one. Wait returns when everything that was
	// begun has ended or waits for a step; Inside runs f where that can be known.
	// With all three a run of the model depends on nothing but its choices.
	Step   func(b state.Backend) bool
	Wait   func()
	Inside func(f func())
	// Unchecked backends accept what must be refused: oracles.
	Unchecked bool
	// Lengths are those of values that the model uses beside small ones.
	Lengths []int
	// Steps is the number of steps of a run of the model; default 60.
	Steps int
	// Expect is told what the backends of all runs of the model did together, and
	// says what did not happen although it should have: more runs follow then, up to
	// a limit. It may be nil.
	Expect func(total state.BackendStats) error
}

// World is what a backend of an attempt lives in.
type World struct {
	Lineage stream.Lineage
	Attempt stream.Attempt
	Storage *Storage
	Disk    any
	// MaxParallelism is the number of key groups: few, so that ranges matter.
	MaxParallelism int
	// Budget is the wanted memory budget in bytes. It is varied between next to
	// nothing and plenty.
	Budget int64
	// Full asks for self-contained snapshots.
	Full bool
	// Compact asks the backend to replace chains often.
	Compact bool
}

// Operator is the operator whose state the suite uses, and Descriptor the state.
const Operator stream.UID = "count"

// Descriptor declares the state.
var Descriptor = state.Descriptor{Name: "n", Kind: "value", Serializer: "bytes/1"}
