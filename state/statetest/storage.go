package statetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"etl/state"
	"etl/stream"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrInjected is what a storage with planned failures returns.
var ErrInjected = errors.New("injected storage failure")

// Storage is checkpoint storage in memory.
type Storage struct {
	mu      sync.Mutex
	objects map[string][]byte
	number  int
	// FailCreates and FailAppends are numbers of calls that fail from now on.
	FailCreates, FailAppends int
	held                     chan struct{} // closed when creates may go on
}

// NewStorage returns an empty storage.
func NewStorage() *Storage { return &Storage{objects: map[string][]byte{}} }

// Create implements state.Objects.
func (s *Storage) Create(ctx context.Context, name string, r io.Reader) (int64, uint32, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return 0, 0, err
	}
	s.mu.Lock()
	held := s.held
	s.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.FailCreates > 0 {
		s.FailCreates--
		return 0, 0, ErrInjected
	}
	if _, ok := s.objects[name]; ok {
		return 0, 0, fmt.Errorf("object %s is created twice", name)
	}
	s.objects[name] = b
	return int64(len(b)), crc32.Checksum(b, castagnoli), ctx.Err()
}

// Hold makes calls of Create wait until it is called with false.
func (s *Storage) Hold(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case on && s.held == nil:
		s.held = make(chan struct{})
	case !on && s.held != nil:
		close(s.held)
		s.held = nil
	}
}

// Read implements state.Objects.
func (s *Storage) Read(_ context.Context, h state.Handle) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.objects[h.Object]
	if !ok {
		return nil, fmt.Errorf("object %s does not exist", h.Object)
	}
	if h.Offset+h.Size > int64(len(b)) {
		return nil, fmt.Errorf("object %s has %d bytes, not %d", h.Object, len(b), h.Offset+h.Size)
	}
	b = b[h.Offset : h.Offset+h.Size]
	return &checked{r: bytes.NewReader(b), bad: crc32.Checksum(b, castagnoli) != h.CRC, name: h.Object}, nil
}

// checked fails at the end of bytes that are not those that were written.
type checked struct {
	r    *bytes.Reader
	bad  bool
	name string
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.bad && (err != nil || c.r.Len() == 0) {
		return 0, fmt.Errorf("object %s: checksum", c.name)
	}
	return n, err
}

func (c *checked) Close() error { return nil }

// Uploader returns an uploader of an attempt. It packs frames into objects.
func (s *Storage) Uploader(a stream.Attempt) state.Uploader { return &uploader{s: s, a: a} }

type uploader struct {
	s    *Storage
	a    stream.Attempt
	name string
}

const packSize = 4 << 10

// Append implements state.Uploader.
func (u *uploader) Append(role state.Role, frame []byte) state.Ticket {
	s := u.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.FailAppends > 0 {
		s.FailAppends--
		return ticket{err: ErrInjected}
	}
	if u.name == "" || len(s.objects[u.name]) > packSize {
		s.number++
		u.name = fmt.Sprintf("pack-%d-%d", u.a, s.number)
	}
	h := state.Handle{
		Role: role, Scope: state.Shared, Object: u.name, Offset: int64(len(s.objects[u.name])),
		Size: int64(len(frame)), CRC: crc32.Checksum(frame, castagnoli),
	}
	s.objects[u.name] = append(s.objects[u.name], frame...)
	return ticket{h: h}
}

type ticket struct {
	h   state.Handle
	err error
}

// Wait implements state.Ticket.
func (t ticket) Wait(context.Context) (state.Handle, error) { return t.h, t.err }

// Keep deletes what no handle of hs reaches, among objects whose names were
// reached before: as retention does, which never deletes what was not listed.
func (s *Storage) Keep(before, hs []state.Handle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reached := map[string]bool{}
	for _, h := range hs {
		reached[h.Object] = true
	}
	for _, h := range before {
		if !reached[h.Object] {
			delete(s.objects, h.Object)
		}
	}
}

// Names returns the names of all objects.
func (s *Storage) Names() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.objects {
		names = append(names, n)
	}
	return names
}

// Damage changes an object: f gets a copy of its bytes and returns the new ones,
// nil to delete it.
func (s *Storage) Damage(name string, f func([]byte) []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := f(bytes.Clone(s.objects[name])); b != nil {
		s.objects[name] = b
	} else {
		delete(s.objects, name)
	}
}

// Clone returns a copy of the storage, for trying things on.
func (s *Storage) Clone() *Storage {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := NewStorage()
	for n, b := range s.objects {
		c.objects[n] = bytes.Clone(b)
	}
	c.number = s.number
	return c
}
