package file

import (
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"sync/atomic"

	"etl/stream"
)

// rooted is a directory of the system's file system that no name and no symbolic link
// leads out of.
type rooted struct {
	root *os.Root
	// two is set once the file system has turned out to know no rename without
	// replacing; a committer finds out before it moves anything.
	two *atomic.Bool
}

func (r rooted) twoSteps() bool { return r.two.Load() }

// openRoot makes dir if there is none, durably, and opens it.
func openRoot(dir string) (stream.FS, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	made := dir
	for made != filepath.Dir(made) {
		if _, err := os.Stat(made); err == nil {
			break
		}
		made = filepath.Dir(made)
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, err
	}
	for at := dir; at != made; at = filepath.Dir(at) {
		if err := (stream.SystemFS{}).SyncDir(filepath.Dir(at)); err != nil {
			return nil, err
		}
	}
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return rooted{r, new(atomic.Bool)}, nil
}

// Close gives the directory back.
func (r rooted) Close() error { return r.root.Close() }

func (r rooted) MkdirAll(dir string, perm fs.FileMode) error { return r.root.MkdirAll(dir, perm) }

func (r rooted) Create(name string, perm fs.FileMode) (stream.File, error) {
	return r.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
}

func (r rooted) Open(name string) (stream.File, error) { return r.root.Open(name) }
func (r rooted) Link(oldName, newName string) error    { return r.root.Link(oldName, newName) }
func (r rooted) Rename(oldName, newName string) error  { return r.root.Rename(oldName, newName) }
func (r rooted) Remove(name string) error              { return r.root.Remove(name) }
func (r rooted) Stat(name string) (fs.FileInfo, error) { return r.root.Stat(name) }

func (r rooted) List(dir string) ([]string, error) {
	d, err := r.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	sort.Strings(names)
	return names, err
}

func (r rooted) SyncDir(dir string) error {
	d, err := r.root.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
