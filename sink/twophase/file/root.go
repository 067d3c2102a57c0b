package file

import (
	"errors"
	"io/fs"
	"path/filepath"

	"etl/stream"
)

// renamer is a file system that renames without replacing in one step.
type renamer interface {
	// RenameNew renames a file; fs.ErrExist when newName is taken.
	RenameNew(oldName, newName string) error
}

// confine returns the files below dir: names are relative to it and lead nowhere else.
// dir is made if there is none.
func confine(f stream.FS, dir string) (stream.FS, error) {
	if _, ok := f.(stream.SystemFS); ok {
		return openRoot(dir)
	}
	if err := f.MkdirAll(dir, dirMode); err != nil {
		return nil, err
	}
	if err := f.SyncDir(filepath.Dir(dir)); err != nil {
		return nil, err
	}
	return below{f, dir}, nil
}

// Files are for others to read; the process's umask takes away what it likes.
const (
	dirMode  fs.FileMode = 0o755
	fileMode fs.FileMode = 0o644
)

// below confines a file system by looking at names.
type below struct {
	fs  stream.FS
	dir string
}

func (b below) at(op, name string) (string, error) {
	if !filepath.IsLocal(name) {
		return "", &fs.PathError{Op: op, Path: name, Err: errors.New("leads out of the sink's path")}
	}
	return filepath.Join(b.dir, name), nil
}

func (b below) one(op, name string, do func(string) error) error {
	at, err := b.at(op, name)
	if err != nil {
		return err
	}
	return do(at)
}

func (b below) two(op, from, to string, do func(from, to string) error) error {
	from, err := b.at(op, from)
	if err != nil {
		return err
	}
	return b.one(op, to, func(to string) error { return do(from, to) })
}

func (b below) MkdirAll(dir string, perm fs.FileMode) error {
	return b.one("mkdir", dir, func(at string) error { return b.fs.MkdirAll(at, perm) })
}

func (b below) Create(name string, perm fs.FileMode) (f stream.File, err error) {
	err = b.one("create", name, func(at string) error {
		f, err = b.fs.Create(at, perm)
		return err
	})
	return f, err
}

func (b below) Open(name string) (f stream.File, err error) {
	err = b.one("open", name, func(at string) error {
		f, err = b.fs.Open(at)
		return err
	})
	return f, err
}

func (b below) Link(from, to string) error   { return b.two("link", from, to, b.fs.Link) }
func (b below) Rename(from, to string) error { return b.two("rename", from, to, b.fs.Rename) }
func (b below) Remove(name string) error     { return b.one("remove", name, b.fs.Remove) }
func (b below) SyncDir(dir string) error     { return b.one("syncdir", dir, b.fs.SyncDir) }

func (b below) RenameNew(from, to string) error {
	return b.two("rename", from, to, func(from, to string) error { return renameNew(b.fs, from, to) })
}

func (b below) List(dir string) (names []string, err error) {
	err = b.one("list", dir, func(at string) error {
		names, err = b.fs.List(at)
		return err
	})
	return names, err
}

func (b below) Stat(name string) (info fs.FileInfo, err error) {
	err = b.one("stat", name, func(at string) error {
		info, err = b.fs.Stat(at)
		return err
	})
	return info, err
}

// renameNew renames without replacing; fs.ErrExist when to is taken. Where that is not
// one step of the file system it is two: a second name, and the first one removed.
func renameNew(f stream.FS, from, to string) error {
	if r, ok := f.(renamer); ok {
		return r.RenameNew(from, to)
	}
	return linkAndRemove(f, from, to)
}

func linkAndRemove(f stream.FS, from, to string) error {
	if err := f.Link(from, to); err != nil {
		return err
	}
	if err := f.SyncDir(filepath.Dir(to)); err != nil { // a loss of power must not keep the removal alone
		return err
	}
	return f.Remove(from)
}
