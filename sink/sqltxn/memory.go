package sqltxn

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"

	"etl/stream"
)

// Memory is what the epochs of one subtask may take of memory, and the folder that what
// is beyond goes to.
type Memory struct {
	fs    stream.FS
	limit int64
	name  string // of spill files: folder and beginning

	mu    sync.Mutex
	held  int64    // bytes of closed chunks in memory
	spare []*chunk // empty
	idle  int64    // their bytes
	wants int64    // how many of these are kept
	files int
	// Spilled counts the bytes that went to disk, for messages and tests.
	spilled int64
}

// NewMemory returns the memory of a subtask. dir is where what is beyond limit goes; name
// tells its files apart from those of others.
func NewMemory(fsys stream.FS, limit int64, dir, name string) *Memory {
	return &Memory{fs: fsys, limit: limit, name: filepath.Join(dir, name)}
}

// Spilled returns how many bytes went to disk.
func (m *Memory) Spilled() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spilled
}

const (
	minChunk = 64 << 10
	maxChunk = 8 << 20
	// spareBytes is how much empty memory is kept for use at least.
	spareBytes = 4 * maxChunk
)

// chunkSize is how large a chunk gets.
func (m *Memory) chunkSize() int { return int(min(max(m.limit/8, minChunk), maxChunk)) }

// take returns an empty chunk. One that is full is expected to become as large as chunks
// get.
func (m *Memory) take(full bool) *chunk {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.spare); n > 0 {
		c := m.spare[n-1]
		m.spare[n-1], m.spare = nil, m.spare[:n-1]
		m.idle -= int64(cap(c.data))
		return c
	}
	if full {
		return &chunk{data: make([]byte, 0, m.chunkSize())}
	}
	return &chunk{data: make([]byte, 0, minChunk)}
}

// give returns the memory of a chunk. What one huge row made too large goes to the
// collector.
func (m *Memory) give(c *chunk) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := int64(cap(c.data)); n > 0 && n <= 2*maxChunk && m.idle+n <= max(m.wants, spareBytes) {
		m.spare, m.idle = append(m.spare, c.empty()), m.idle+n
	}
}

// expect says how much an epoch is about to give back. The next one will need as much, and
// what is spare beyond that is kept no longer.
func (m *Memory) expect(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wants = bytes
	for n := len(m.spare); n > 0 && m.idle > max(m.wants, spareBytes); n-- {
		m.idle -= int64(cap(m.spare[n-1].data))
		m.spare[n-1], m.spare = nil, m.spare[:n-1]
	}
}

// hold counts a closed chunk, and spills it when there is no more room.
func (m *Memory) hold(r *Rows, c *chunk) error {
	m.mu.Lock()
	full := m.held+int64(len(c.data)) > m.limit
	if !full {
		m.held += int64(len(c.data))
		c.held = true
	}
	m.mu.Unlock()
	if !full {
		return nil
	}
	if r.spill == nil {
		f, err := m.create()
		if err != nil {
			return err
		}
		r.spill = f
	}
	if err := r.spill.take(c, r.past); err != nil {
		return err
	}
	m.mu.Lock()
	m.spilled += int64(c.size)
	m.mu.Unlock()
	spare := &chunk{data: c.data}
	if c.data = nil; !r.past {
		spare.live, c.live = c.live, nil
	}
	m.give(spare)
	return nil
}

// free gives up a chunk.
func (m *Memory) free(c *chunk) {
	if c.file != nil {
		c.file.release()
		return
	}
	if c.held {
		m.mu.Lock()
		m.held -= int64(len(c.data))
		m.mu.Unlock()
	}
	m.give(c)
	c.data = nil
}

// spillFile holds the chunks of one epoch. It has no name: it was removed as soon as it
// was open, so that nothing stays behind whatever happens. Nothing is synced: a crash
// takes the epoch along, and the source has it.
type spillFile struct {
	w, r stream.File
	size int64
	refs int
	mu   sync.Mutex
}

func (m *Memory) create() (*spillFile, error) {
	m.mu.Lock()
	m.files++
	name := fmt.Sprintf("%s.%d.spill", m.name, m.files)
	m.mu.Unlock()
	if err := m.fs.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, spillError(name, err)
	}
	w, err := m.fs.Create(name, 0o600)
	if errors.Is(err, fs.ErrExist) { // of a process that died right here
		if err = m.fs.Remove(name); err == nil {
			w, err = m.fs.Create(name, 0o600)
		}
	}
	if err != nil {
		return nil, spillError(name, err)
	}
	r, err := m.fs.Open(name)
	if err != nil {
		return nil, errors.Join(spillError(name, err), w.Close(), m.fs.Remove(name))
	}
	if err := m.fs.Remove(name); err != nil {
		return nil, errors.Join(spillError(name, err), w.Close(), r.Close())
	}
	return &spillFile{w: w, r: r}, nil
}

func spillError(name string, err error) error {
	return stream.Errorf(stream.Environment, "postgres.spill", "spill rows to disk", name, "%w", err).
		WithFix("make room in the folder, name another one with spill_dir:, or raise memory:")
}

// take writes the rows of a chunk, those that do not count only on demand.
func (f *spillFile) take(c *chunk, all bool) error {
	if c.dead > 0 && !all {
		c.compact(make([]byte, 0, len(c.data)-c.dead))
	}
	if _, err := f.w.Write(c.data); err != nil {
		return spillError("", err)
	}
	c.file, c.at, c.size, c.rowCount = f, f.size, len(c.data), len(c.live)
	f.size += int64(c.size)
	f.mu.Lock()
	f.refs++
	f.mu.Unlock()
	return nil
}

// load reads a chunk back.
func (f *spillFile) load(into []byte, at int64, size int) ([]byte, error) {
	if cap(into) < size {
		into = make([]byte, size)
	}
	into = into[:size]
	if _, err := f.r.ReadAt(into, at); err != nil && !errors.Is(err, io.EOF) {
		return nil, spillError("", err)
	}
	return into, nil
}

// release gives up one chunk, and with the last one the file.
func (f *spillFile) release() {
	f.mu.Lock()
	f.refs--
	last := f.refs == 0
	f.mu.Unlock()
	if last {
		_, _ = f.w.Close(), f.r.Close() // there is nothing in it that anybody needs
	}
}
