package pebbledb_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"etl/state"
	"etl/state/statetest"
	"etl/stream"
)

// TestVirtualTime: the backend lives inside a simulation: virtual time, a file
// system that forgets what was not synced, and no goroutine left at the end.
func TestVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		storage := statetest.NewStorage()
		var hs map[stream.UID][]state.Handle
		var from stream.CheckpointID
		for i := range 5 {
			j := &job{t: t, fs: fs, storage: storage, attempt: stream.Attempt(i)}
			j.start(from, hs, "a", "b")
			for task := range j.stores {
				if got, want := j.get(task.UID, "k"), []string{"absent", "0", "1", "2", "3"}[i]; got != want {
					t.Errorf("attempt %d: %s is %s instead of %s", i, task, got, want)
				}
				j.set(task.UID, "k", string(rune('0'+i)))
			}
			j.checkpoint()
			time.Sleep(time.Minute)
			hs, from = j.checkpoint(), j.id
			after := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(uint64(i), 2))})
			j.stop()
			fs = after
		}
	})
}
