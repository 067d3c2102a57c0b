package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync/atomic"

	"etl/stream"
)

// Log keeps the rows of one epoch in the order in which they came: in memory up to a
// bound, beyond it in a file. It is what an Epoch of rows that do not replace each other
// is made of.
type Log struct {
	room   *Room
	parts  []part
	open   []byte
	inOpen int
	rows   int64
	held   int64 // bytes of closed parts in memory
	file   *spill
}

// part is a closed run of rows, in memory or in the file.
type part struct {
	data []byte
	rows int
	at   int64
	size int
}

const (
	// partBytes is how large a segment gets.
	partBytes = 4 << 20
	// maxRow is far below what the fields of a segment can hold.
	maxRow = 256 << 20
)

// Room is what the logs of one subtask may take of memory, and where the rest goes.
type Room struct {
	FS stream.FS
	// Memory bounds each epoch's rows in memory, in bytes.
	Memory int64
	// Dir is where the rest goes; Name tells a subtask's files apart from others'.
	Dir, Name string

	files   atomic.Int64
	spilled atomic.Int64
}

// NewRoom returns the room of a subtask.
func NewRoom(env *stream.Env, memory int64, dir string) *Room {
	return &Room{FS: env.FS, Memory: memory, Dir: dir, Name: fmt.Sprintf("etl-%s-%d-%s-%d", env.Lineage.Short(), env.Attempt, fileName(string(env.UID)), env.Subtask)}
}

// fileName makes a name fit for a file.
func fileName(s string) string {
	b := []byte(s)
	for i, c := range b {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			b[i] = '_'
		}
	}
	return string(b[:min(len(b), 100)])
}

// Spilled returns how many bytes went to disk.
func (m *Room) Spilled() int64 { return m.spilled.Load() }

// NewLog returns an empty log.
func (m *Room) NewLog() *Log { return &Log{room: m} }

// Add adds a row, and returns what it takes.
func (l *Log) Add(row []byte) (int, error) {
	if len(row) > maxRow {
		return 0, stream.Errorf(stream.Failed, "wal.row_too_large", "write row", "", "the row has %d bytes, more than the %d a row may have", len(row), maxRow)
	}
	if l.open == nil {
		l.open = make([]byte, 0, 64<<10)
		if len(l.parts) > 0 { // this one will be as large as the last
			l.open = make([]byte, 0, partBytes+partBytes/64)
		}
	}
	before := len(l.open)
	l.open = append(binary.AppendUvarint(l.open, uint64(len(row))), row...)
	l.inOpen++
	l.rows++
	size := len(l.open) - before
	if len(l.open) < partBytes {
		return size, nil
	}
	return size, l.close()
}

// Rows returns the number of rows.
func (l *Log) Rows() int64 { return l.rows }

// close closes the open part.
func (l *Log) close() error {
	if l.inOpen == 0 {
		return nil
	}
	p := part{data: l.open, rows: l.inOpen, size: len(l.open)}
	l.open, l.inOpen = nil, 0
	if l.held+int64(p.size) > l.room.Memory {
		if err := l.spill(&p); err != nil {
			return err
		}
	} else {
		l.held += int64(p.size)
	}
	l.parts = append(l.parts, p)
	return nil
}

func (l *Log) spill(p *part) (err error) {
	if l.file == nil {
		if l.file, err = l.room.create(); err != nil {
			return err
		}
	}
	if p.at, err = l.file.append(p.data); err != nil {
		return err
	}
	l.room.spilled.Add(int64(p.size))
	p.data = nil
	return nil
}

// Segments calls f with the rows as bodies of segments.
func (l *Log) Segments(f func(rows int, body []byte) error) error {
	if err := l.close(); err != nil {
		return err
	}
	for _, p := range l.parts {
		body := p.data
		if body == nil {
			var err error
			if body, err = l.file.read(p.at, p.size); err != nil {
				return err
			}
		}
		if err := f(p.rows, body); err != nil {
			return err
		}
	}
	return nil
}

// Free gives memory and file back.
func (l *Log) Free() {
	if l.file != nil {
		l.file.close()
	}
	*l = Log{room: l.room}
}

// spill is a file without a name: it was removed as soon as it was open, so that nothing
// stays behind whatever happens. Nothing is synced: a crash takes the epoch along, and the
// source has it.
type spill struct {
	w, r stream.File
	size int64
}

func (m *Room) create() (*spill, error) {
	name := filepath.Join(m.Dir, fmt.Sprintf("%s.%d.wal", m.Name, m.files.Add(1)))
	if err := m.FS.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, spillError(name, err)
	}
	w, err := m.FS.Create(name, 0o600)
	if errors.Is(err, fs.ErrExist) { // of a process that died right here
		if err = m.FS.Remove(name); err == nil {
			w, err = m.FS.Create(name, 0o600)
		}
	}
	if err != nil {
		return nil, spillError(name, err)
	}
	r, err := m.FS.Open(name)
	if err != nil {
		return nil, errors.Join(spillError(name, err), w.Close(), m.FS.Remove(name))
	}
	if err := m.FS.Remove(name); err != nil {
		return nil, errors.Join(spillError(name, err), w.Close(), r.Close())
	}
	return &spill{w: w, r: r}, nil
}

func (s *spill) append(b []byte) (at int64, err error) {
	if _, err := s.w.Write(b); err != nil {
		return 0, spillError("", err)
	}
	at = s.size
	s.size += int64(len(b))
	return at, nil
}

func (s *spill) read(at int64, size int) ([]byte, error) {
	b := make([]byte, size)
	if _, err := s.r.ReadAt(b, at); err != nil && !errors.Is(err, io.EOF) {
		return nil, spillError("", err)
	}
	return b, nil
}

func (s *spill) close() { _, _ = s.w.Close(), s.r.Close() } // there is nothing in it that anybody needs

func spillError(name string, err error) error {
	return stream.Errorf(stream.Environment, "wal.spill", "spill rows to disk", name, "%w", err).
		WithFix("make room in the folder, name another one with spill_dir:, or raise memory:")
}
