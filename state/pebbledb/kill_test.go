package pebbledb_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"

	"etl/state/pebbledb"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("ETL_PEBBLEDB_CHILD"); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
		}
		os.Exit(1) // it is killed before
	}
	goleak.VerifyTestMain(m)
}

const (
	childKeys     = 40_000
	childPerRound = 2000
)

// childWrites are the keys that round r writes.
func childWrites(r uint64) func(yield func(uint64) bool) {
	return func(yield func(uint64) bool) {
		for i := range uint64(childPerRound) {
			if !yield((r*7919*childPerRound + i*31) % childKeys) {
				return
			}
		}
	}
}

func childConfig(c *pebbledb.Config) {
	oftenBase(c)
	c.Memory = 6 << 20
}

// child works and takes checkpoints until it is killed.
func child(dir string) error {
	r := newRig(&testing.B{}, dir, childConfig)
	if err := r.start(); err != nil {
		return err
	}
	for {
		for range 3 {
			r.round++
			if err := r.write(childWrites(r.round), r.round); err != nil {
				return err
			}
			fmt.Fprintln(os.Stdout, "round", r.round)
		}
		if err := r.checkpoint(r.round%5 != 0); err != nil {
			return err
		}
		if err := r.b.Err(); err != nil {
			return err
		}
	}
}

// TestKill: after a kill -9 the local base is at the end of an epoch of the
// chain, is used, and gives exactly the newest published checkpoint.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	var reused, discarded, materialized, spilled int64
	for i := range 4 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "ETL_PEBBLEDB_CHILD="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for range 12 + 4*i { // the third round of three is where a checkpoint begins
			lines.Scan()
		}
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()

		r := newRig(t, dir, childConfig)
		must(t, r.start())
		want := map[uint64]uint64{}
		for round := range r.round {
			for k := range childWrites(round + 1) {
				want[k] = round + 1
			}
		}
		if err := r.check(count(childKeys), func(k uint64) uint64 { return want[k] }); err != nil {
			t.Fatalf("after kill %d, at checkpoint of round %d: %v", i, r.round, err)
		}
		s := r.b.Stats()
		reused, discarded = reused+s.BasesReused, discarded+s.BasesDiscarded
		materialized, spilled = materialized+s.Materializations, spilled+s.Spilled
		t.Logf("kill %d: round %d, %d handles, %+v", i, r.round, len(r.hs), s)
		r.stop()
	}
	if reused == 0 {
		t.Error("the local base was never used again")
	}
	t.Logf("bases reused %d, discarded %d", reused, discarded)
}
