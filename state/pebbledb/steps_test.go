package pebbledb_test

import (
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"

	"etl/state"
	"etl/state/keyed"
	"etl/state/pebbledb"
	"etl/state/statetest"
	"etl/stream"
)

// TestSteps is the model with a keeper that goes on only when the model says so,
// in virtual time: where an apply, a copy or an upload falls between the steps of
// the tasks is chosen, and what is found is found again with the same seed.
func TestSteps(t *testing.T) {
	f := features()
	f.New = func(t testing.TB, w *statetest.World) state.Backend {
		b, err := pebbledb.NewStepwise(config(w))
		must(t, err)
		return b
	}
	f.Lengths = []int{20_000, 40_000, 40_000} // need several slices to be copied out
	f.Steps, f.Expect = 80, happened
	f.Step = func(b state.Backend) bool { return b.(*pebbledb.Backend).Step() }
	f.Wait = synctest.Wait
	f.Settle = func(b state.Backend) {
		for more := true; more; synctest.Wait() {
			more = f.Step(b)
		}
	}
	f.Inside = func(run func()) {
		var failed any
		synctest.Test(t, func(*testing.T) {
			defer func() { failed = recover() }()
			run()
		})
		if failed != nil {
			panic(failed)
		}
	}
	statetest.Run(t, f)
}

func config(w *statetest.World) pebbledb.Config {
	p := keyed.Policy{Full: w.Full}
	if w.Compact {
		p.SegmentBytes, p.SegmentCount, p.Base = 1<<10, 4, true
	}
	return pebbledb.Config{
		World: stream.SystemWorld(nil), FS: w.Disk.(vfs.FS), Dir: "/data/state", Lineage: w.Lineage, Attempt: w.Attempt,
		MaxParallelism: w.MaxParallelism, Memory: w.Budget, Policy: p,
	}
}
