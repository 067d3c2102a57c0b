package pebbledb_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"etl/state/keyed"
	"etl/state/pebbledb"
	"etl/stream"
)

var long = flag.Bool("long", false, "run the test of state larger than memory at full size: 1 GiB in 64 MiB")

// TestLargerThanMemory writes state of many times the memory budget, twice,
// with checkpoints only when the store asks for one, and reads it back.
func TestLargerThanMemory(t *testing.T) {
	budget, keys := int64(16<<20), uint64(128<<10)
	if *long {
		budget, keys = 64<<20, 1<<20
	}
	r := newRig(t, t.TempDir(), func(c *pebbledb.Config) {
		c.Memory = budget
		c.Policy = keyed.Policy{SegmentBytes: 4 * budget}
	})
	r.value = 1000
	must(t, r.start())
	begin, checkpoints, most := time.Now(), 0, int64(0)
	for r.round < 2 {
		r.round++
		for part := range uint64(64) {
			from := part * keys / 64
			must(t, r.write(func(yield func(uint64) bool) {
				for k := from; k < from+keys/64 && yield(k); k++ {
				}
			}, r.round))
			if r.store.OverBudget() {
				must(t, r.checkpoint(true))
				checkpoints++
			}
			most = max(most, r.b.Stats().CacheBytes)
		}
	}
	must(t, r.checkpoint(true))
	must(t, r.check(count(keys), func(uint64) uint64 { return r.round }))
	s := r.b.Stats()
	t.Logf("%d MiB of state in %d MiB, twice, in %v: %d checkpoints, cache at most %d MiB, resident %d MiB, %+v",
		keys*uint64(r.value)>>20, budget>>20, time.Since(begin).Round(time.Millisecond), checkpoints, most>>20, resident()>>20, s)
	if most > budget+budget/2 {
		t.Errorf("the cache took %d MiB", most>>20)
	}
	if s.Materializations == 0 || s.BaseReads == 0 || checkpoints == 0 {
		t.Error("something that should have happened did not")
	}
	r.stop()

	begin = time.Now()
	must(t, r.start())
	must(t, r.check(count(keys/16), func(uint64) uint64 { return r.round }))
	t.Logf("reopened and read in part in %v: %+v", time.Since(begin).Round(time.Millisecond), r.b.Stats())
	r.stop()
}

// resident returns the process's resident memory in bytes, 0 if unknown.
func resident() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	return n * int64(os.Getpagesize())
}

// TestDiskFull: on a full disk Pebble waits for ever without an error. The
// attempt ends in time, saying what is wrong, and everything can be closed.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	disk := filepath.Join(dir, "state")
	must(t, os.Mkdir(disk, 0o700))
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=32m"); err != nil {
		t.Skipf("SKIPPED: the disk-full test needs the right to mount a tmpfs: %v", err)
	}
	defer syscall.Unmount(disk, syscall.MNT_DETACH)
	r := newRig(t, dir, func(c *pebbledb.Config) {
		oftenBase(c)
		c.Timeout = 3 * time.Second
	})
	r.value, r.noise = 512, rand.New(rand.NewPCG(1, 1))
	must(t, r.start())
	for r.b.Err() == nil && r.round < 200 {
		r.round++
		from := r.round * 20000
		err := r.write(func(yield func(uint64) bool) {
			for k := from; k < from+20000 && yield(k); k++ {
			}
		}, r.round)
		if err == nil {
			err = r.checkpoint(true)
		}
		if err != nil {
			t.Logf("round %d: %v", r.round, err)
			break
		}
		r.b.Rest()
	}
	err := r.b.Err()
	if err == nil {
		t.Fatal("a full disk was not noticed")
	}
	t.Log(err)
	if c := stream.ClassOf(err); c != stream.Environment && c != stream.Restart {
		t.Errorf("class %s", c)
	}
	closed := make(chan struct{})
	go func() {
		_ = r.store.Close()
		_ = r.b.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Fatal("what stands on a full disk cannot be closed")
	}
}
