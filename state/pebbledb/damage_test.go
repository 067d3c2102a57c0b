package pebbledb_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etl/state"
	"etl/state/pebbledb"
	"etl/stream"
)

// lenient is storage that does not notice what happens to its objects.
type lenient struct{ objects }

func (l lenient) Read(_ context.Context, h state.Handle) (io.ReadCloser, error) {
	b, err := os.ReadFile(filepath.Join(l.dir, h.Object))
	return io.NopCloser(bytes.NewReader(b)), err
}

// withBase returns a rig's folder whose newest checkpoint has a base and at least
// one segment with entries after it: 3000 keys of round 1, 500 of them newer.
func withBase(t *testing.T) (dir string, hs []state.Handle) {
	t.Helper()
	r := newRig(t, t.TempDir(), oftenBase)
	must(t, r.start())
	for {
		r.round++
		keys := uint64(500)
		if r.round == 1 {
			keys = 3000
		}
		must(t, r.write(count(keys), r.round))
		must(t, r.checkpoint(true))
		r.b.Rest()
		if last := r.hs[len(r.hs)-1]; r.hs[0].Role == state.BaseFile && last.Entries > 0 {
			break
		}
		if r.round > 50 {
			t.Fatal("no base was made")
		}
	}
	r.stop()
	return r.dir, r.hs
}

// intact compares all keys with what withBase wrote.
func intact(r *rig) error {
	return r.check(count(3000), func(k uint64) uint64 {
		if k < 500 {
			return r.round
		}
		return 1
	})
}

var damages = map[string]func([]byte) []byte{
	"a bit flipped": func(b []byte) []byte { b[len(b)/2] ^= 4; return b },
	"cut":           func(b []byte) []byte { return b[:len(b)-1] },
	"removed":       func([]byte) []byte { return nil },
}

// TestDamagedBase: Pebble opens a base with a damaged manifest as an empty one. A
// restore refuses it before Pebble sees it, and says which object is damaged.
func TestDamagedBase(t *testing.T) {
	dir, hs := withBase(t)
	for _, h := range hs {
		if h.Role != state.BaseFile || h.Size == 0 {
			continue
		}
		for what, damage := range damages {
			t.Run(h.File+" "+what, func(t *testing.T) { refused(t, dir, h, damage, h.Object) })
		}
	}
	restores(t, dir)
}

// TestDamagedSegment: the message names object and key group.
func TestDamagedSegment(t *testing.T) {
	dir, hs := withBase(t)
	h := hs[len(hs)-1]
	for what, damage := range damages {
		say := h.Object
		if what == "a bit flipped" {
			say = "key group"
		}
		t.Run(what, func(t *testing.T) { refused(t, dir, h, damage, h.Object, say) })
	}
	restores(t, dir)
}

// refused damages an object and restores on an empty disk.
func refused(t *testing.T, dir string, h state.Handle, damage func([]byte) []byte, say ...string) {
	name := filepath.Join(dir, "objects", h.Object)
	good, err := os.ReadFile(name)
	must(t, err)
	defer func() { must(t, os.WriteFile(name, good, 0o600)) }()
	if b := damage(bytes.Clone(good)); b != nil {
		must(t, os.WriteFile(name, b, 0o600))
	} else {
		must(t, os.Remove(name))
	}
	r := newRig(t, dir, func(c *pebbledb.Config) { c.Dir = filepath.Join(t.TempDir(), "elsewhere") })
	r.lenient = true
	err = r.start()
	if err == nil {
		r.stop()
		t.Fatal("it was not noticed")
	}
	for _, s := range say {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("the message does not say %q: %v", s, err)
		}
	}
	if stream.ClassOf(err) != stream.RestoreRefused {
		t.Errorf("class %s instead of restore_refused: %v", stream.ClassOf(err), err)
	}
	left, err := os.ReadDir(r.cfg.Dir)
	if err == nil && len(left) > 0 && h.Role == state.BaseFile {
		t.Errorf("the refused restore left %v", left)
	}
}

// restores checks that everything is there without damage.
func restores(t *testing.T, dir string) {
	t.Helper()
	r := newRig(t, dir, func(c *pebbledb.Config) { c.Dir = filepath.Join(t.TempDir(), "elsewhere") })
	must(t, r.start())
	defer r.stop()
	must(t, intact(r))
}

// TestDamagedLocalBase: bad blocks of the local disk end the attempt with an
// error to restart from, and the next attempt does not trust that base again.
func TestDamagedLocalBase(t *testing.T) {
	dir, _ := withBase(t)
	tables, err := filepath.Glob(filepath.Join(dir, "state", "base-*", "*.sst"))
	must(t, err)
	for _, name := range tables {
		b, err := os.ReadFile(name)
		must(t, err)
		for i := 100; i < 1500; i += 50 { // what the base says about itself lies behind
			b[i] ^= 0x55
		}
		// The links of the copy in objects are copies, not links: they stay good.
		must(t, os.WriteFile(name, b, 0o600))
	}
	r := newRig(t, dir, oftenBase)
	err = r.start()
	if err == nil {
		if r.b.Stats().BasesReused != 1 {
			t.Error("the local base was not used")
		}
		err = intact(r)
		_ = r.store.Close()
		_ = r.b.Close()
	}
	if err == nil {
		t.Fatal("the damage was not noticed")
	}
	t.Log(err)
	if c := stream.ClassOf(err); c != stream.Restart {
		t.Errorf("class %s instead of restart", c)
	}
	again := newRig(t, dir, oftenBase)
	must(t, again.start())
	defer again.stop()
	if s := again.b.Stats(); s.BasesReused != 0 || s.BasesDiscarded != 1 {
		t.Errorf("the next attempt: %+v", s)
	}
	must(t, intact(again))
}

// TestStagingRemoved: uploads that fail leave no hard-link copies behind.
func TestStagingRemoved(t *testing.T) {
	r := newRig(t, t.TempDir(), oftenBase)
	must(t, r.start())
	defer r.stop()
	full := filepath.Join(r.dir, "objects", "objects") // where bases go
	must(t, os.MkdirAll(filepath.Dir(full), 0o700))
	must(t, os.WriteFile(full, nil, 0o600)) // a file where a folder should be
	for range 30 {
		r.round++
		must(t, r.write(count(3000), r.round))
		must(t, r.checkpoint(true))
		r.b.Rest()
	}
	staging, err := filepath.Glob(filepath.Join(r.cfg.Dir, "staging-*"))
	must(t, err)
	if len(staging) > 0 || r.b.Stats().Materializations > 0 {
		t.Errorf("%v is left; %+v", staging, r.b.Stats())
	}
	must(t, os.Remove(full))
	r.round++
	must(t, r.write(count(3000), r.round))
	must(t, r.checkpoint(true))
	r.b.Rest()
	if r.b.Stats().Materializations == 0 {
		t.Error("no base is made after storage has come back")
	}
}
