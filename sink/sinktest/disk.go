package sinktest

import (
	"io/fs"

	"etl/stream"
)

// disk is a file system that a process can die at: before and after each operation
// that changes something. What a dead process does reaches it no more.
type disk struct {
	stream.FS
	n *node
}

func (d disk) do(op func() error) error {
	if err := d.n.pass(step); err != nil {
		return err
	}
	err := d.n.call(op)
	if dead := d.n.pass(step); dead != nil {
		return dead
	}
	return err
}

// MkdirAll implements stream.FS.
func (d disk) MkdirAll(dir string, perm fs.FileMode) error {
	return d.do(func() error { return d.FS.MkdirAll(dir, perm) })
}

// Create implements stream.FS.
func (d disk) Create(name string, perm fs.FileMode) (f stream.File, err error) {
	err = d.do(func() error {
		f, err = d.FS.Create(name, perm)
		return err
	})
	return d.open(f, err)
}

// Open implements stream.FS.
func (d disk) Open(name string) (f stream.File, err error) {
	err = d.do(func() error {
		f, err = d.FS.Open(name)
		return err
	})
	return d.open(f, err)
}

func (d disk) open(f stream.File, err error) (stream.File, error) {
	if err != nil {
		if f != nil {
			_ = f.Close() // the process died between
		}
		return nil, err
	}
	return file{f, d}, nil
}

// Link implements stream.FS.
func (d disk) Link(oldName, newName string) error {
	return d.do(func() error { return d.FS.Link(oldName, newName) })
}

// Rename implements stream.FS.
func (d disk) Rename(oldName, newName string) error {
	return d.do(func() error { return d.FS.Rename(oldName, newName) })
}

// RenameNew renames without replacing newName: in one step where the file system has
// one, so that a process can die between the two only where it has not.
func (d disk) RenameNew(oldName, newName string) error {
	if f, ok := d.FS.(interface {
		RenameNew(oldName, newName string) error
	}); ok {
		return d.do(func() error { return f.RenameNew(oldName, newName) })
	}
	if err := d.Link(oldName, newName); err != nil {
		return err
	}
	return d.Remove(oldName)
}

// Remove implements stream.FS.
func (d disk) Remove(name string) error { return d.do(func() error { return d.FS.Remove(name) }) }

// SyncDir implements stream.FS.
func (d disk) SyncDir(dir string) error { return d.do(func() error { return d.FS.SyncDir(dir) }) }

// file is an open file of a disk.
type file struct {
	stream.File
	d disk
}

// Write implements stream.File.
func (f file) Write(p []byte) (n int, err error) {
	err = f.d.do(func() error {
		n, err = f.File.Write(p)
		return err
	})
	return n, err
}

// Sync implements stream.File.
func (f file) Sync() error { return f.d.do(f.File.Sync) }
