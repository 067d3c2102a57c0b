package simtest

import (
	"context"
	"io/fs"
	"strings"
	"syscall"

	"etl/internal/simtest/crashfs"
	"etl/stream"
)

// The methods of disk are those of crashfs.FS for a process that is alive: a dead
// one changes nothing. A stopped one waits at its calls of the storage, see store,
// and before a name appears: other calls may be made under a mutex, and in a
// synctest bubble nothing may wait for long that holds one.

func (d *disk) gate() error {
	if d.p.isDead() {
		return errCut
	}
	return nil
}

func (d *disk) MkdirAll(dir string, perm fs.FileMode) error {
	if err := d.gate(); err != nil {
		return err
	}
	return d.FS.MkdirAll(dir, perm)
}

func (d *disk) Create(name string, perm fs.FileMode) (stream.File, error) {
	return d.open(func() (stream.File, error) { return d.FS.Create(name, perm) })
}

func (d *disk) Open(name string) (stream.File, error) {
	return d.open(func() (stream.File, error) { return d.FS.Open(name) })
}

func (d *disk) Append(name string, perm fs.FileMode) (stream.File, error) {
	return d.open(func() (stream.File, error) { return d.FS.Append(name, perm) })
}

func (d *disk) open(f func() (stream.File, error)) (stream.File, error) {
	if err := d.gate(); err != nil {
		return nil, err
	}
	h, err := f()
	if err != nil {
		return nil, err
	}
	return &diskFile{File: h, d: d}, nil
}

func (d *disk) Link(oldName, newName string) error {
	if !strings.Contains(newName, "log/") {
		if err := d.gate(); err != nil {
			return err
		}
	} else if err := d.p.gate(context.Background()); err != nil {
		return err
	}
	return d.FS.Link(oldName, newName)
}

func (d *disk) Rename(oldName, newName string) error {
	if err := d.gate(); err != nil {
		return err
	}
	return d.FS.Rename(oldName, newName)
}

func (d *disk) Remove(name string) error {
	if err := d.gate(); err != nil {
		return err
	}
	return d.FS.Remove(name)
}

func (d *disk) List(dir string) ([]string, error) {
	if err := d.gate(); err != nil {
		return nil, err
	}
	return d.FS.List(dir)
}

func (d *disk) Stat(name string) (fs.FileInfo, error) {
	if err := d.gate(); err != nil {
		return nil, err
	}
	return d.FS.Stat(name)
}

func (d *disk) SyncDir(dir string) error {
	if err := d.gate(); err != nil {
		return err
	}
	return d.FS.SyncDir(dir)
}

func (d *disk) TryLock(name string, note []byte, takeOver bool) (func() error, []byte, error) {
	if err := d.gate(); err != nil {
		return nil, nil, err
	}
	unlock, holder, err := d.FS.TryLock(name, note, takeOver)
	if unlock != nil {
		d.mu.Lock()
		d.locks = append(d.locks, unlock)
		d.mu.Unlock()
	}
	return unlock, holder, err
}

type diskFile struct {
	stream.File
	d *disk
}

func (f *diskFile) Write(b []byte) (int, error) {
	if err := f.d.gate(); err != nil {
		return 0, err
	}
	return f.File.Write(b)
}

func (f *diskFile) Sync() error {
	if err := f.d.gate(); err != nil {
		return err
	}
	return f.File.Sync()
}

// spoil lets one sync of a file or directory fail in the life that begins. What it
// should have made durable is lost for good, as on Linux.
func (s *sim) spoil() {
	left := 1 + s.r.IntN(120)
	s.disk.OnOp(func(o crashfs.Op) error {
		if o.Kind != "sync" && o.Kind != "syncdir" {
			return nil
		}
		if left--; left != 0 {
			return nil
		}
		s.cov.add("storage/" + o.Kind + " failed")
		return &fs.PathError{Op: o.Kind, Path: o.Name, Err: syscall.EIO}
	})
}
