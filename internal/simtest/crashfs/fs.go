package crashfs

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"etl/stream"
)

// FS is a file system in memory. Its methods are safe from any goroutine.
type FS struct {
	mu    sync.Mutex
	root  *node
	onOp  func(Op) error
	ops   int
	locks map[string][]byte
	moves []move // by RenameNew, not durable yet
}

var _ stream.FS = (*FS)(nil)

// Op is one operation on an FS.
type Op struct {
	N    int    // counts the operations of the FS, from 1
	Kind string // mkdir create open append write sync link rename renamenew remove list stat syncdir lock
	Name string
	To   string // link, rename: the new name
	Size int    // write: bytes
}

// String returns the operation in one line.
func (o Op) String() string {
	s := o.Kind + " " + o.Name
	if o.To != "" {
		s += " -> " + o.To
	}
	if o.Kind == "write" {
		s += fmt.Sprintf(" %d bytes", o.Size)
	}
	return s
}

// node is a file or a directory.
type node struct {
	mode fs.FileMode
	// A directory has names, and those that a crash leaves.
	names, durable map[string]*node
	// A file has contents, what a crash surely leaves of them, and what it may.
	data, synced []byte
	unsynced     []change
}

// change is a write that was not synced yet.
type change struct {
	off  int
	data []byte
}

func newDir(mode fs.FileMode) *node {
	return &node{mode: mode | fs.ModeDir, names: map[string]*node{}, durable: map[string]*node{}}
}

// New returns an empty file system.
func New() *FS { return &FS{root: newDir(0o755), locks: map[string][]byte{}} }

// OnOp calls f before every operation, one at a time, until f is nil. When f
// returns an error, the operation fails with it and does nothing.
func (f *FS) OnOp(fn func(Op) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onOp = fn
}

// FailNth is an OnOp function that fails the n-th operation (from 1) of a kind
// whose name contains part.
func FailNth(kind, part string, n int, err error) func(Op) error {
	return func(o Op) error {
		if o.Kind != kind || !strings.Contains(o.Name, part) {
			return nil
		}
		if n--; n == 0 {
			return fmt.Errorf("%s %s: %w", o.Kind, o.Name, err)
		}
		return nil
	}
}

func (f *FS) did(o Op) error {
	f.ops++
	o.N = f.ops
	if f.onOp == nil {
		return nil
	}
	return f.onOp(o)
}

func fail(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

func split(name string) []string {
	return strings.FieldsFunc(path.Clean("/"+name), func(r rune) bool { return r == '/' })
}

// find returns the node at name, nil when there is none.
func (f *FS) find(name string) *node {
	n := f.root
	for _, part := range split(name) {
		if n = n.names[part]; n == nil { // a file has no names
			return nil
		}
	}
	return n
}

// parent returns the directory that holds, or would hold, name.
func (f *FS) parent(op, name string) (*node, string, error) {
	parts := split(name)
	if len(parts) == 0 {
		return nil, "", fail(op, name, fs.ErrInvalid)
	}
	d := f.find(strings.Join(parts[:len(parts)-1], "/"))
	if d == nil || d.names == nil {
		return nil, "", fail(op, name, fs.ErrNotExist)
	}
	return d, parts[len(parts)-1], nil
}

// MkdirAll creates dir and its parents.
func (f *FS) MkdirAll(dir string, perm fs.FileMode) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.did(Op{Kind: "mkdir", Name: dir}); err != nil {
		return err
	}
	n := f.root
	for _, part := range split(dir) {
		next := n.names[part]
		if next == nil {
			next = newDir(perm)
			n.names[part] = next
		}
		if next.names == nil {
			return fail("mkdir", dir, fs.ErrExist)
		}
		n = next
	}
	return nil
}

// Link gives the file a second name.
func (f *FS) Link(oldName, newName string) error {
	return f.move(Op{Kind: "link", Name: oldName, To: newName})
}

// Rename renames a file, replacing newName.
func (f *FS) Rename(oldName, newName string) error {
	return f.move(Op{Kind: "rename", Name: oldName, To: newName})
}

func (f *FS) move(o Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.did(o); err != nil {
		return err
	}
	from, was, err := f.parent(o.Kind, o.Name)
	if err != nil {
		return err
	}
	to, is, err := f.parent(o.Kind, o.To)
	if err != nil {
		return err
	}
	n := from.names[was]
	switch {
	case n == nil:
		return fail(o.Kind, o.Name, fs.ErrNotExist)
	case o.Kind == "link" && to.names[is] != nil:
		return fail(o.Kind, o.To, fs.ErrExist)
	}
	to.names[is] = n
	if o.Kind == "rename" {
		delete(from.names, was)
	}
	return nil
}

// Remove removes a file or an empty directory.
func (f *FS) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.did(Op{Kind: "remove", Name: name}); err != nil {
		return err
	}
	d, base, err := f.parent("remove", name)
	if err != nil {
		return err
	}
	switch n := d.names[base]; {
	case n == nil:
		return fail("remove", name, fs.ErrNotExist)
	case len(n.names) > 0:
		return fail("remove", name, fs.ErrExist)
	}
	delete(d.names, base)
	return nil
}

// List returns the names in dir, sorted.
func (f *FS) List(dir string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.did(Op{Kind: "list", Name: dir}); err != nil {
		return nil, err
	}
	n := f.find(dir)
	if n == nil || n.names == nil {
		return nil, fail("list", dir, fs.ErrNotExist)
	}
	names := make([]string, 0, len(n.names))
	for name := range n.names {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// Stat describes a file.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.did(Op{Kind: "stat", Name: name}); err != nil {
		return nil, err
	}
	n := f.find(name)
	if n == nil {
		return nil, fail("stat", name, fs.ErrNotExist)
	}
	return info{path.Base(name), int64(len(n.data)), n.mode}, nil
}

// SyncDir makes the names in dir durable.
func (f *FS) SyncDir(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.find(dir)
	if n == nil || n.names == nil {
		return fail("syncdir", dir, fs.ErrNotExist)
	}
	if err := f.did(Op{Kind: "syncdir", Name: dir}); err != nil {
		return err
	}
	clear(n.durable)
	for name, c := range n.names {
		n.durable[name] = c
	}
	f.settle(n)
	return nil
}

// TryLock takes the advisory lock on name and leaves note with it, or returns
// what the holder left.
func (f *FS) TryLock(name string, note []byte, takeOver bool) (unlock func() error, holder []byte, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.did(Op{Kind: "lock", Name: name}); err != nil {
		return nil, nil, err
	}
	if held, ok := f.locks[name]; ok && !takeOver {
		return nil, held, nil
	}
	mine := slices.Clone(note)
	f.locks[name] = mine
	return func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if held := f.locks[name]; len(held) > 0 && len(mine) > 0 && &held[0] == &mine[0] {
			delete(f.locks, name)
		}
		return nil
	}, nil, nil
}

type info struct {
	name string
	size int64
	mode fs.FileMode
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }
