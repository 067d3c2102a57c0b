package pebbledb_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"etl/state/statetest"
	"etl/stream"
)

// TestUnfinishedApply: a kill in the middle of an apply leaves a base that has some
// changes of a store and not others. It is used again, and what the next attempt
// then stores of it can be restored elsewhere: a base of its own for a checkpoint
// that is full, and the base on which all chains begin after a rescale.
func TestUnfinishedApply(t *testing.T) {
	for name, next := range map[string]func(*job){
		"full":      func(j *job) { j.full = true },
		"rescaled":  func(j *job) { j.parallel["b"] = 2 },
		"as it was": func(*job) {},
	} {
		t.Run(name, func(t *testing.T) {
			j := &job{t: t, fs: vfs.NewMem(), storage: statetest.NewStorage(), memory: 64 << 20, parallel: map[stream.UID]int{}}
			j.start(0, nil, "a", "b")
			for _, k := range []string{"k", "l"} {
				j.set("a", k, "1")
				j.set("b", k, "1")
			}
			for range 3 {
				j.checkpoint()
			}
			j.quiet = true
			j.set("a", "k", "2")
			j.set("a", "l", "2")
			hs := j.checkpoint()
			must(t, j.b.Unfinished("a", hs["a"][len(hs["a"])-1], "k", "2"))
			from := j.id
			j.stop()

			next(j)
			j.quiet = false
			j.start(from, hs, "a", "b")
			if s := j.b.Stats(); s.BasesReused != 1 {
				t.Errorf("%+v", s)
			}
			j.set("b", "k", "3")
			hs, from = j.checkpoint(), j.id
			j.stop()

			for _, fs := range []vfs.FS{j.fs, vfs.NewMem()} {
				j.fs = fs
				j.start(from, hs, "a", "b")
				for key, want := range map[[2]string]string{
					{"a", "k"}: "2", {"a", "l"}: "2", {"b", "k"}: "3", {"b", "l"}: "1",
				} {
					if got := j.get(stream.UID(key[0]), key[1]); got != want {
						t.Errorf("%s of %s is %s instead of %s", key[1], key[0], got, want)
					}
				}
				j.stop()
			}
		})
	}
}
