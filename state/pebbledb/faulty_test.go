package pebbledb_test

import (
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"etl/state/keyed"
	"etl/state/pebbledb"
)

// TestDiskErrors: an operation of the local disk fails, once or from then on, at
// a random place. Whatever comes of it, the attempt ends with an error or goes on
// exactly, and the next one, on a sound disk, has the newest published checkpoint.
func TestDiskErrors(t *testing.T) {
	const keys, seeds = 2000, 24
	failed := 0
	for seed := range uint64(seeds) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		mem := vfs.NewCrashableMem()
		var ops, hits atomic.Int64
		at, forever := 1+rnd.Int64N(1500), rnd.IntN(2) == 0
		fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || op.Kind == errorfs.OpFileClose || !strings.HasPrefix(op.Path, "/state/") {
				return nil
			}
			if n := ops.Add(1); n == at || forever && n > at {
				hits.Add(1)
				return errorfs.ErrInjected
			}
			return nil
		}))
		config := func(c *pebbledb.Config) {
			c.Dir, c.FS, c.Memory, c.Timeout = "/state", fs, 1, 2*time.Second
			c.Policy = keyed.Policy{SegmentBytes: 64 << 10, Base: true}
		}
		r := newRig(t, t.TempDir(), config)
		if err := worksUntilError(r, keys); err != nil {
			failed++
		}
		again := newRig(t, r.dir, config)
		again.cfg.FS = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: int(seed%3) * 50, RNG: rnd})
		again.cfg.Attempt, again.cfg.Timeout = r.cfg.Attempt, time.Minute // nothing hangs now: this one may be slow
		must(t, again.start())
		want := again.round
		if err := again.check(count(keys), func(uint64) uint64 { return want }); err != nil {
			t.Fatalf("seed %d, error at operation %d of %d (from then on: %v): %v", seed, at, ops.Load(), forever, err)
		}
		again.stop()
	}
	t.Logf("%d of %d runs ended with an error", failed, seeds)
	if failed == 0 {
		t.Error("no run failed: the test proves nothing")
	}
}

// worksUntilError writes all keys in every round and compares them.
func worksUntilError(r *rig, keys uint64) error {
	if err := r.start(); err != nil {
		return err
	}
	defer func() {
		_ = r.store.Close()
		_ = r.b.Close()
	}()
	for range 12 {
		r.round++
		if err := r.write(count(keys), r.round); err != nil {
			return err
		}
		if err := r.checkpoint(true); err != nil {
			return err
		}
		r.b.Rest()
		if err := r.b.Err(); err != nil {
			return err
		}
		if err := r.check(count(keys), func(uint64) uint64 { return r.round }); err != nil {
			return err
		}
	}
	return nil
}
