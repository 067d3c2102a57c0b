package pebbledb_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"sync"
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
		NewDisk: func(testing.TB) any { return &crashable{MemFS: vfs.NewCrashableMem()} },
		Crash:   func(_ testing.TB, disk any) any { return disk.(*crashable).crash() },
		Settle:  func(b state.Backend) { b.(*pebbledb.Backend).Rest() },
	}
}

// crashable is a disk in memory that may be cloned at any time. MemFS.Lock takes a
// lock for reading twice, and hangs for ever if a clone asks for it in between.
type crashable struct {
	*vfs.MemFS
	locking sync.Mutex
}

func (c *crashable) Lock(name string) (io.Closer, error) {
	c.locking.Lock()
	defer c.locking.Unlock()
	return c.MemFS.Lock(name)
}

func (c *crashable) crash() *crashable {
	c.locking.Lock()
	defer c.locking.Unlock()
	return &crashable{MemFS: c.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(1, 2))})}
}

func TestPebble(t *testing.T) {
	f := features()
	f.Expect = happened
	statetest.Run(t, f)
}

// happened: a model in which nothing reached a base proves nothing.
func happened(s state.BackendStats) error {
	if s.Materializations == 0 || s.BasesReused == 0 || s.BasesDiscarded == 0 || s.Spilled == 0 || s.BaseReads == 0 || s.SegmentsReplayed == 0 {
		return errors.New("something that should have happened did not")
	}
	return nil
}

// TestPebbleLarge has values that fill budgets of a few megabytes.
func TestPebbleLarge(t *testing.T) {
	f := features()
	f.Lengths, f.Steps = []int{8, 8, 8, 64, 300, 5000, 5000, 100_000, 1_500_000}, 20
	statetest.Run(t, f)
}
