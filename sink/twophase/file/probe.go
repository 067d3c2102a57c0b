package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"etl/stream"
)

// Probe looks, without writing anything, at what a run needs of the disk: that the sink's
// directory can be made and written, that a rename leads from what is hidden to where
// readers look, and that there is room. The warnings stop nothing.
func (c Config) Probe() (warnings, errs []error) { return c.probe(system) }

// ground is what a probe looks at.
type ground struct {
	// writable says whether this process may make and rename files in a directory, device
	// which file system holds it, and room how many bytes and files it can still take.
	writable func(dir string) error
	device   func(dir string) (uint64, bool)
	room     func(dir string) (bytes, files uint64, ok bool)
}

func (c Config) probe(g ground) (warnings, errs []error) {
	dir, err := nearest(c.Path)
	if err == nil {
		err = g.writable(dir)
	}
	if err != nil {
		return nil, []error{environment("look at directory", c.Path, err)}
	}
	pending := filepath.Join(c.Path, hidden)
	in, err := nearest(pending)
	if err == nil && in != dir {
		err = g.writable(in)
	}
	if err != nil {
		errs = append(errs, environment("look at directory", pending, err))
	}
	for _, place := range append([]string{c.Path}, c.partitions()...) {
		if from, to, apart := g.apart(pending, place); apart {
			errs = append(errs, stream.Errorf(stream.Environment, "file.other_file_system", "look at directory", place, "it is on another file system (%d) than %s (%d): a file cannot be renamed from one to the other", to, pending, from).
				WithFix("mount one file system over the whole path of the sink"))
			break
		}
	}
	return c.roomy(g, dir), errs
}

// nearest returns the directory above a path, or itself, that is there.
func nearest(path string) (string, error) {
	for {
		info, err := os.Stat(path)
		switch {
		case err == nil && !info.IsDir():
			return "", fmt.Errorf("%s is no directory", path)
		case err == nil || filepath.Dir(path) == path || !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			return path, err
		}
		path = filepath.Dir(path)
	}
}

// apart reports whether two places are certainly on different file systems.
func (g ground) apart(x, y string) (dx, dy uint64, apart bool) {
	nx, errx := nearest(x)
	ny, erry := nearest(y)
	dx, okx := g.device(nx)
	dy, oky := g.device(ny)
	return dx, dy, errx == nil && erry == nil && okx && oky && dx != dy
}

// looked bounds how many directories of partitions are looked at.
const looked = 1000

// partitions are directories of the outermost partition that are there already.
func (c Config) partitions() (out []string) {
	if len(c.PartitionBy) == 0 {
		return nil
	}
	entries, err := os.ReadDir(c.Path)
	if err != nil {
		return nil
	}
	for _, e := range slices.Backward(entries) { // dates: the newest first
		if strings.HasPrefix(e.Name(), escape(c.PartitionBy[0])+"=") && len(out) < looked {
			out = append(out, filepath.Join(c.Path, e.Name()))
		}
	}
	return out
}

// roomy warns when every subtask could not write one file of full size.
func (c Config) roomy(g ground, dir string) []error {
	bytes, files, ok := g.room(dir)
	need := uint64(max(c.Parallelism, 1)) * uint64(c.RollSize)
	if !ok || bytes >= need && files > 0 {
		return nil
	}
	return []error{stream.Errorf(stream.Environment, "file.room", "look at directory", c.Path, "%d MiB and %d names are free: %d subtasks with roll.size %d MiB may need more within one checkpoint", bytes>>20, files, max(c.Parallelism, 1), c.RollSize>>20).
		WithFix("make room on the disk, or lower roll.size")}
}
