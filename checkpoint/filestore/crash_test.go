package filestore_test

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"

	"etl/checkpoint/filestore"
	"etl/internal/simtest/crashfs"
	"etl/stream"
)

// promise is what a call said before the power went.
type promise struct {
	name, text string // text "-": it was deleted
	done       bool   // the call returned without an error
}

// script writes to a store and notes what it was promised.
func script(fs stream.FS, said *[]promise) error {
	st, err := filestore.Open(world(fs), "/data/job")
	if err != nil {
		return err
	}
	do := func(name, text string, f func() error) error {
		*said = append(*said, promise{name: name, text: text})
		if err := f(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		(*said)[len(*said)-1].done = true
		return nil
	}
	ctx := context.Background()
	for i := range 4 {
		name, text := fmt.Sprintf("log/%012d", i+1), strings.Repeat(fmt.Sprint(i), 700)
		if err := do(name, text, func() error { return st.PutIfAbsent(ctx, name, []byte(text)) }); err != nil {
			return err
		}
		name = fmt.Sprintf("objects/1a2b3c4d-1-%d", i)
		if err := do(name, text, func() error { _, _, err := st.Create(ctx, name, strings.NewReader(text)); return err }); err != nil {
			return err
		}
	}
	return do("log/000000000002", "-", func() error { return st.Delete(ctx, "log/000000000002") })
}

// check compares what a crash left with what was promised: what a call promised
// is there, what it did not is there whole or not at all.
func check(left *crashfs.FS, said []promise) error {
	st, err := filestore.Open(world(left), "/data/job")
	if err != nil {
		return err
	}
	last := map[string]promise{}
	before := map[string]string{}
	for _, p := range said {
		if old, ok := last[p.name]; ok {
			before[p.name] = old.text
		}
		last[p.name] = p
	}
	for name, p := range last {
		b, err := st.Get(context.Background(), name)
		got := string(b)
		if err != nil {
			got = "-"
		}
		switch {
		case got == p.text:
		case !p.done && got == "-", !p.done && got == before[name]:
		default:
			return fmt.Errorf("%s holds %.20q (%d bytes), promised %.20q (done: %v)", name, got, len(got), p.text, p.done)
		}
	}
	return nil
}

// powerCuts runs the script and cuts the power at every operation, once strictly
// and a few times by chance.
func powerCuts(wrap func(*crashfs.FS) stream.FS) (cuts int, err error) {
	disk := crashfs.New()
	if err := disk.MkdirAll("/data", 0o700); err != nil {
		return 0, err
	}
	if err := disk.SyncDir("/"); err != nil {
		return 0, err
	}
	c := &cutter{FS: wrap(disk)}
	var said []promise
	c.cut = func() {
		for seed := range uint64(5) {
			rnd := rand.New(rand.NewPCG(seed, uint64(cuts)))
			if seed == 0 {
				rnd = nil
			}
			cuts++
			if e := check(disk.Crash(rnd), said); e != nil && err == nil {
				err = fmt.Errorf("cut %d, seed %d: %w", cuts, seed, e)
			}
		}
	}
	if e := script(c, &said); e != nil {
		return cuts, e
	}
	c.cut()
	return cuts, err
}

// cutter cuts the power before every operation that changes something.
type cutter struct {
	stream.FS
	cut func()
}

func (c *cutter) Link(a, b string) error {
	c.cut()
	defer c.cut()
	return c.FS.Link(a, b)
}

func (c *cutter) Remove(name string) error {
	c.cut()
	defer c.cut()
	return c.FS.Remove(name)
}

func (c *cutter) SyncDir(dir string) error {
	c.cut()
	defer c.cut()
	return c.FS.SyncDir(dir)
}

func TestPowerCuts(t *testing.T) {
	cuts, err := powerCuts(func(d *crashfs.FS) stream.FS { return d })
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d power cuts", cuts)
}

// TestPowerCutsControl: the same test catches a store that forgets a sync.
func TestPowerCutsControl(t *testing.T) {
	for name, wrap := range map[string]func(*crashfs.FS) stream.FS{
		"directories not synced":      func(d *crashfs.FS) stream.FS { return noSyncDir{d, "log"} },
		"object directory not synced": func(d *crashfs.FS) stream.FS { return noSyncDir{d, "objects"} },
		"new directories not synced":  func(d *crashfs.FS) stream.FS { return noSyncDir{d, "job"} },
		"contents not synced":         func(d *crashfs.FS) stream.FS { return noSync{d} },
	} {
		if _, err := powerCuts(wrap); err == nil {
			t.Errorf("%s: not caught", name)
		} else {
			t.Logf("%s: caught: %v", name, err)
		}
	}
}

// noSyncDir forgets to sync one directory.
type noSyncDir struct {
	*crashfs.FS
	dir string
}

func (f noSyncDir) SyncDir(dir string) error {
	if strings.HasSuffix(dir, f.dir) {
		return nil
	}
	return f.FS.SyncDir(dir)
}

// noSync forgets to sync contents.
type noSync struct{ *crashfs.FS }

func (f noSync) Create(name string, perm fs.FileMode) (stream.File, error) {
	h, err := f.FS.Create(name, perm)
	return unsynced{h}, err
}

type unsynced struct{ stream.File }

func (unsynced) Sync() error { return nil }
