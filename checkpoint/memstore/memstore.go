// Package memstore keeps the checkpoints of jobs in the memory of the process:
// for tests, and for the storage URL "memory:".
//
// A name stands for one set of objects for as long as the process lives, so that
// a job that restarts in the process finds its checkpoints again. The semantics
// are those of every checkpoint.Storage. What can go wrong with a store behind a
// network can be asked for: see [Store.Inject].
package memstore

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"sync"

	"etl/checkpoint"
)

// Store is a checkpoint.Storage in memory. Its methods are safe from any goroutine.
type Store struct {
	name string

	mu      sync.Mutex
	objects map[string][]byte
	holder  *checkpoint.Holder
	inject  func(Call) Verdict
	ops     int
	late    sync.WaitGroup
}

var _ checkpoint.Storage = (*Store)(nil)

var (
	named   = map[string]*Store{}
	namedMu sync.Mutex
)

// Open returns the store of a name, which is made at first.
func Open(name string) *Store {
	namedMu.Lock()
	defer namedMu.Unlock()
	if named[name] == nil {
		named[name] = New(name)
	}
	return named[name]
}

// New returns an empty store that nobody else can open.
func New(name string) *Store { return &Store{name: name, objects: map[string][]byte{}} }

// URL names the storage in messages.
func (s *Store) URL() string { return "memory:" + s.name }

// PutIfAbsent creates an object, or fails with checkpoint.ErrExists.
func (s *Store) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	data = slices.Clone(data)
	return s.call(ctx, "put", name, func() error {
		if _, ok := s.objects[name]; ok {
			return fmt.Errorf("%s: %w", name, checkpoint.ErrExists)
		}
		s.objects[name] = data
		return nil
	})
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Create stores a new object.
func (s *Store) Create(ctx context.Context, name string, r io.Reader) (int64, uint32, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return 0, 0, err
	}
	err = s.call(ctx, "create", name, func() error {
		if _, ok := s.objects[name]; ok {
			return fmt.Errorf("%s: %w", name, checkpoint.ErrExists)
		}
		s.objects[name] = data
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	return int64(len(data)), crc32.Checksum(data, castagnoli), nil
}

// get returns an object, which is never changed.
func (s *Store) get(ctx context.Context, op, name string) (b []byte, err error) {
	err = s.call(ctx, op, name, func() error {
		var ok bool
		if b, ok = s.objects[name]; !ok {
			return fmt.Errorf("%s: %w", name, checkpoint.ErrNotFound)
		}
		return nil
	})
	return b, err
}

// Get returns an object, or checkpoint.ErrNotFound.
func (s *Store) Get(ctx context.Context, name string) ([]byte, error) {
	b, err := s.get(ctx, "get", name)
	return slices.Clone(b), err
}

// Open reads size bytes at offset.
func (s *Store) Open(ctx context.Context, name string, offset, size int64) (io.ReadCloser, error) {
	b, err := s.get(ctx, "open", name)
	if err != nil {
		return nil, err
	}
	if offset < 0 || size < 0 || offset+size > int64(len(b)) {
		return nil, fmt.Errorf("%s: bytes %d to %d of %d: %w", name, offset, offset+size, len(b), io.ErrUnexpectedEOF)
	}
	return io.NopCloser(bytes.NewReader(b[offset : offset+size])), nil
}

// Stat returns an object's size, or checkpoint.ErrNotFound.
func (s *Store) Stat(ctx context.Context, name string) (checkpoint.Info, error) {
	b, err := s.get(ctx, "stat", name)
	if err != nil {
		return checkpoint.Info{}, err
	}
	return checkpoint.Info{Name: name, Size: int64(len(b))}, nil
}

// List returns the objects whose names begin with prefix, sorted by name.
func (s *Store) List(ctx context.Context, prefix string) (out []checkpoint.Info, err error) {
	err = s.call(ctx, "list", prefix, func() error {
		for name, b := range s.objects {
			if strings.HasPrefix(name, prefix) {
				out = append(out, checkpoint.Info{Name: name, Size: int64(len(b))})
			}
		}
		return nil
	})
	slices.SortFunc(out, func(a, b checkpoint.Info) int { return strings.Compare(a.Name, b.Name) })
	return out, err
}

// Delete removes an object; removing what is not there is no error.
func (s *Store) Delete(ctx context.Context, name string) error {
	return s.call(ctx, "delete", name, func() error {
		delete(s.objects, name)
		return nil
	})
}

// Note adds a line to a journal.
func (s *Store) Note(ctx context.Context, name string, line []byte) error {
	return s.call(ctx, "note", name, func() error {
		b := s.objects[name]
		if len(b) >= checkpoint.JournalLimit {
			s.objects[name+".1"], b = b, nil
		}
		s.objects[name] = append(append(b[:len(b):len(b)], line...), '\n')
		return nil
	})
}

// Lock takes the advisory lock.
func (s *Store) Lock(ctx context.Context, me checkpoint.Holder, takeOver bool) (unlock func() error, held *checkpoint.Holder, err error) {
	err = s.call(ctx, "lock", "", func() error {
		if s.holder != nil && !takeOver {
			h := *s.holder
			held = &h
			return nil
		}
		mine := &me
		s.holder = mine
		unlock = func() error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.holder == mine {
				s.holder = nil
			}
			return nil
		}
		return nil
	})
	return unlock, held, err
}
