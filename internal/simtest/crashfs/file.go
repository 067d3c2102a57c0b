package crashfs

import (
	"io"
	"io/fs"
	"slices"

	"etl/stream"
)

// Create makes a new file.
func (f *FS) Create(name string, perm fs.FileMode) (stream.File, error) {
	return f.open(Op{Kind: "create", Name: name}, perm)
}

// Open opens a file for reading.
func (f *FS) Open(name string) (stream.File, error) { return f.open(Op{Kind: "open", Name: name}, 0) }

// Append opens a file for writing at its end, and makes it if there is none.
func (f *FS) Append(name string, perm fs.FileMode) (stream.File, error) {
	return f.open(Op{Kind: "append", Name: name}, perm)
}

func (f *FS) open(o Op, perm fs.FileMode) (stream.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.did(o); err != nil {
		return nil, err
	}
	d, base, err := f.parent(o.Kind, o.Name)
	if err != nil {
		return nil, err
	}
	n := d.names[base]
	switch {
	case n == nil && o.Kind == "open":
		return nil, fail(o.Kind, o.Name, fs.ErrNotExist)
	case n != nil && o.Kind == "create":
		return nil, fail(o.Kind, o.Name, fs.ErrExist)
	case n != nil && n.names != nil:
		return nil, fail(o.Kind, o.Name, fs.ErrInvalid)
	case n == nil:
		n = &node{mode: perm}
		d.names[base] = n
	}
	return &file{fs: f, n: n, name: o.Name, writes: o.Kind != "open"}, nil
}

// file is an open file. It goes on when its names are removed.
type file struct {
	fs     *FS
	n      *node
	name   string
	writes bool
	closed bool
	at     int // of the next Read
}

func (h *file) usable(op string, writes bool) error {
	switch {
	case h.closed:
		return fail(op, h.name, fs.ErrClosed)
	case writes && !h.writes:
		return fail(op, h.name, fs.ErrPermission)
	}
	return nil
}

// Write appends.
func (h *file) Write(p []byte) (int, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if err := h.usable("write", true); err != nil {
		return 0, err
	}
	if err := h.fs.did(Op{Kind: "write", Name: h.name, Size: len(p)}); err != nil {
		return 0, err
	}
	h.n.unsynced = append(h.n.unsynced, change{off: len(h.n.data), data: slices.Clone(p)})
	h.n.data = append(h.n.data, p...)
	return len(p), nil
}

// Read reads on.
func (h *file) Read(p []byte) (int, error) {
	n, err := h.ReadAt(p, int64(h.at))
	h.at += n
	if n > 0 {
		err = nil
	}
	return n, err
}

// ReadAt reads at an offset.
func (h *file) ReadAt(p []byte, off int64) (int, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if err := h.usable("read", false); err != nil {
		return 0, err
	}
	if off >= int64(len(h.n.data)) {
		return 0, io.EOF
	}
	n := copy(p, h.n.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Sync makes the contents durable.
func (h *file) Sync() error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if err := h.usable("sync", false); err != nil {
		return err
	}
	changes := h.n.unsynced
	h.n.unsynced = nil // a failed Sync loses them for good
	if err := h.fs.did(Op{Kind: "sync", Name: h.name}); err != nil {
		return err
	}
	for _, c := range changes {
		h.n.synced = c.apply(h.n.synced)
	}
	return nil
}

// Close ends the handle; it makes nothing durable.
func (h *file) Close() error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.closed {
		return fail("close", h.name, fs.ErrClosed)
	}
	h.closed = true
	return nil
}

func (c change) apply(b []byte) []byte {
	if grow := c.off + len(c.data) - len(b); grow > 0 {
		b = append(b, make([]byte, grow)...)
	}
	copy(b[c.off:], c.data)
	return b
}
