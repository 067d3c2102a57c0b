package crashfs_test

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"etl/internal/simtest/crashfs"
	"etl/stream"
)

// read returns the contents of a file, "-" when there is none.
func read(t *testing.T, f *crashfs.FS, name string) string {
	t.Helper()
	h, err := f.Open(name)
	if err != nil {
		return "-"
	}
	defer h.Close()
	b, err := io.ReadAll(h)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func write(t *testing.T, f *crashfs.FS, name, text string, sync bool) stream.File {
	t.Helper()
	h, err := f.Create(name, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(h, text); err != nil {
		t.Fatal(err)
	}
	if sync {
		if err := h.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func TestOnlySyncMakesDurable(t *testing.T) {
	f := crashfs.New()
	must(t, f.MkdirAll("/a/b", 0o700))
	must(t, f.SyncDir("/"))
	must(t, f.SyncDir("/a"))
	write(t, f, "/a/b/both", "x", true)
	write(t, f, "/a/b/name", "y", false)
	must(t, f.SyncDir("/a/b"))
	write(t, f, "/a/b/contents", "z", true)
	g := f.Crash(nil)
	for name, want := range map[string]string{"/a/b/both": "x", "/a/b/name": "", "/a/b/contents": "-"} {
		if got := read(t, g, name); got != want {
			t.Errorf("%s holds %q after the crash, want %q", name, got, want)
		}
	}
	if got := read(t, f, "/a/b/contents"); got != "z" {
		t.Errorf("the original changed: %q", got)
	}
}

func TestRemovalAndRenameNeedSyncDir(t *testing.T) {
	f := crashfs.New()
	write(t, f, "/one", "1", true)
	write(t, f, "/two", "2", true)
	must(t, f.SyncDir("/"))
	must(t, f.Remove("/one"))
	must(t, f.Rename("/two", "/three"))
	g := f.Crash(nil)
	if read(t, g, "/one") != "1" || read(t, g, "/two") != "2" || read(t, g, "/three") != "-" {
		t.Error("a removal or a renaming was durable without SyncDir")
	}
	must(t, f.SyncDir("/"))
	g = f.Crash(nil)
	if read(t, g, "/one") != "-" || read(t, g, "/two") != "-" || read(t, g, "/three") != "2" {
		t.Error("a synced removal or renaming was lost")
	}
}

func TestRandomCrashKeepsSomething(t *testing.T) {
	f := crashfs.New()
	write(t, f, "/big", strings.Repeat("x", 4096), false)
	seen := map[string]bool{}
	for seed := range uint64(64) {
		got := read(t, f.Crash(rand.New(rand.NewPCG(1, seed))), "/big")
		again := read(t, f.Crash(rand.New(rand.NewPCG(1, seed))), "/big")
		if got != again {
			t.Fatalf("seed %d is not repeatable", seed)
		}
		switch {
		case got == "-":
			seen["lost"] = true
		case got == strings.Repeat("x", 4096):
			seen["whole"] = true
		case strings.Contains(got, "\x00"):
			seen["holes"] = true
		}
	}
	if !seen["lost"] || !seen["holes"] {
		t.Errorf("64 crashes were too tame: %v", seen)
	}
}

func TestFailedSyncLosesForGood(t *testing.T) {
	f := crashfs.New()
	eio := errors.New("input/output error")
	h := write(t, f, "/f", "x", false)
	must(t, f.SyncDir("/"))
	f.OnOp(crashfs.FailNth("sync", "/f", 1, eio))
	if err := h.Sync(); !errors.Is(err, eio) {
		t.Fatalf("sync returned %v", err)
	}
	must(t, h.Sync())
	if got := read(t, f.Crash(nil), "/f"); got != "" {
		t.Errorf("after a failed and a good sync the disk holds %q, want nothing", got)
	}
}

func TestLinksShareContents(t *testing.T) {
	f := crashfs.New()
	h := write(t, f, "/tmp", "x", false)
	must(t, f.Link("/tmp", "/name"))
	if err := f.Link("/tmp", "/name"); err == nil {
		t.Error("a link replaced a name")
	}
	must(t, h.Sync())
	must(t, f.SyncDir("/"))
	must(t, f.Remove("/tmp"))
	g := f.Crash(nil)
	names, err := g.List("/")
	must(t, err)
	if !slices.Equal(names, []string{"name", "tmp"}) || read(t, g, "/name") != "x" {
		t.Errorf("after the crash: %v, %q", names, read(t, g, "/name"))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRenameNewIsOneChange(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(64) {
		f := crashfs.New()
		must(t, f.MkdirAll("/a", 0o700))
		must(t, f.MkdirAll("/b", 0o700))
		must(t, f.SyncDir("/"))
		write(t, f, "/a/one", "1", true)
		must(t, f.SyncDir("/a"))
		must(t, f.RenameNew("/a/one", "/b/two"))
		write(t, f, "/a/one", "another", true)
		if err := f.RenameNew("/a/one", "/b/two"); !errors.Is(err, fs.ErrExist) {
			t.Fatalf("a name that is taken: %v", err)
		}
		must(t, f.Remove("/a/one"))
		g := f.Crash(rand.New(rand.NewPCG(1, seed)))
		got := read(t, g, "/a/one") + read(t, g, "/b/two")
		if got != "1-" && got != "-1" {
			t.Fatalf("seed %d: after the crash there are %q", seed, got)
		}
		seen[got] = true
		must(t, f.SyncDir("/a")) // the directory it came from is enough
		if got := read(t, f.Crash(nil), "/b/two"); got != "1" {
			t.Fatalf("after the sync there is %q", got)
		}
	}
	if len(seen) != 2 {
		t.Errorf("64 crashes ended all alike: %v", seen)
	}
}
