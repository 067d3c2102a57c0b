package file

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"etl/stream"
)

// grounds are disks with something wrong, below the directory of TestProbe.
var grounds = []struct {
	name, path, want string
	warning          bool
	change           func(*ground)
}{
	{name: "sound", path: "sink"},
	{name: "not there yet", path: "sink/new/deep"},
	{name: "a file", path: "taken", want: "file.unusable"},
	{name: "below a file", path: "taken/deep", want: "file.unusable"},
	{name: "no right", path: "sink", want: "file.unusable", change: func(g *ground) {
		g.writable = func(string) error { return syscall.EACCES }
	}},
	{name: "no right above what is to be made", path: "sink/new", want: "file.unusable", change: func(g *ground) {
		g.writable = func(d string) error { return map[string]error{"sink": syscall.EROFS}[filepath.Base(d)] }
	}},
	{name: "no right where files are hidden", path: "sink", want: "file.unusable", change: func(g *ground) {
		g.writable = func(d string) error { return map[string]error{".etl": syscall.EACCES}[filepath.Base(d)] }
	}},
	{name: "hidden elsewhere", path: "sink", want: "file.other_file_system", change: func(g *ground) {
		g.device = func(d string) (uint64, bool) { return uint64(strings.Count(d, ".etl")), true }
	}},
	{name: "a partition elsewhere", path: "sink", want: "file.other_file_system", change: func(g *ground) {
		g.device = func(d string) (uint64, bool) { return uint64(strings.Count(d, "day=1")), true }
	}},
	{name: "no partition elsewhere", path: "sink", change: func(g *ground) {
		g.device = func(d string) (uint64, bool) { return uint64(strings.Count(d, "other")), true }
	}},
	{name: "full", path: "sink", want: "file.room", warning: true, change: func(g *ground) {
		g.room = func(string) (uint64, uint64, bool) { return 255 << 20, 1000, true }
	}},
	{name: "just room", path: "sink", change: func(g *ground) {
		g.room = func(string) (uint64, uint64, bool) { return 256 << 20, 1, true }
	}},
	{name: "no names", path: "sink", want: "file.room", warning: true, change: func(g *ground) {
		g.room = func(string) (uint64, uint64, bool) { return 1 << 40, 0, true }
	}},
}

// TestProbe: what a run would find out of the disk is told before it, each with its fix,
// and nothing is written.
func TestProbe(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"sink/.etl", "sink/day=1", "sink/day=2", "sink/other"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "taken"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	sound := ground{
		writable: func(string) error { return nil },
		device:   func(string) (uint64, bool) { return 7, true },
		room:     func(string) (uint64, uint64, bool) { return 1 << 40, 1000, true },
	}
	for _, tc := range grounds {
		t.Run(tc.name, func(t *testing.T) {
			g := sound
			if tc.change != nil {
				tc.change(&g)
			}
			c := Config{Path: filepath.Join(dir, tc.path), PartitionBy: []string{"day"}, Parallelism: 2}.WithDefaults()
			warnings, errs := c.probe(g)
			if tc.want == "" {
				if len(warnings)+len(errs) > 0 {
					t.Errorf("%v, %v", warnings, errs)
				}
				return
			}
			found := errs
			if tc.warning {
				found = warnings
			}
			if len(warnings)+len(errs) != 1 || len(found) != 1 || stream.CodeOf(found[0]) != tc.want || !strings.Contains(found[0].Error(), " -> ") {
				t.Errorf("%v, %v", warnings, errs)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "sink/new")); err == nil {
		t.Error("the probe has made a directory")
	}
}

// TestProbeSystem: this machine can be looked at.
func TestProbeSystem(t *testing.T) {
	dir := t.TempDir()
	c := Config{Path: filepath.Join(dir, "new"), RollSize: 1}.WithDefaults()
	if warnings, errs := c.Probe(); len(warnings)+len(errs) > 0 {
		t.Errorf("%v, %v", warnings, errs)
	}
	c.RollSize = 1 << 62
	if warnings, _ := c.Probe(); len(warnings) != 1 {
		t.Errorf("no disk has as much room: %v", warnings)
	}
	if os.Getuid() == 0 {
		return // may write everywhere
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if _, errs := c.Probe(); len(errs) != 1 {
		t.Errorf("a directory without rights: %v", errs)
	}
}
