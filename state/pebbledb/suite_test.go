package pebbledb_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"etl/state"
	"etl/state/keyed"
	"etl/state/pebbledb"
	"etl/state/statetest"
	"etl/stream"
)

func features() statetest.Features {
	return statetest.Features{
		Name: "pebble",
		New: func(t testing.TB, w *statetest.World) state.Backend {
			p := keyed.Policy{Full: w.Full}
			if w.Compact {
				p.SegmentBytes, p.SegmentCount, p.Base = 1<<10, 4, true
			}
			b, err := pebbledb.New(pebbledb.Config{
				World: stream.SystemWorld(nil), FS: w.Disk.(vfs.FS), Dir: "/data/state", Lineage: w.Lineage, Attempt: w.Attempt,
				MaxParallelism: w.MaxParallelism, Memory: w.Budget, Policy: p,
			})
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
		NewDisk: func(testing.TB) any { return vfs.NewCrashableMem() },
		Crash: func(_ testing.TB, disk any) any {
			return disk.(*vfs.MemFS).CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(1, 2))})
		},
		Settle: func(b state.Backend) { b.(*pebbledb.Backend).Rest() },
	}
}

func TestPebble(t *testing.T) {
	f := features()
	f.Expect = func(s state.BackendStats) error {
		if s.Materializations == 0 || s.BasesReused == 0 || s.BasesDiscarded == 0 || s.Spilled == 0 || s.BaseReads == 0 || s.SegmentsReplayed == 0 {
			return errors.New("something that should have happened did not")
		}
		return nil
	}
	statetest.Run(t, f)
}

// TestPebbleLarge has values that fill budgets of a few megabytes.
func TestPebbleLarge(t *testing.T) {
	f := features()
	f.Large, f.Steps = true, 20
	statetest.Run(t, f)
}
