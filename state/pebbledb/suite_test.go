package pebbledb_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"etl/state"
	"etl/state/pebbledb"
	"etl/state/statetest"
)

func features() statetest.Features {
	return statetest.Features{
		Name: "pebble",
		New: func(t testing.TB, w *statetest.World) state.Backend {
			b, err := pebbledb.New(config(w))
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
	f.Lengths, f.Steps = []int{100_000, 1_500_000}, 20
	statetest.Run(t, f)
}
