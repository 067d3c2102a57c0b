package simtest

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"etl/checkpoint"
	"etl/checkpoint/filestore"
)

var errDisk = errors.New("injected: the storage did not answer")

// mishaps are what goes wrong with a storage.
type mishaps struct {
	latency time.Duration // the most that a call takes
	// fail is the chance that a call fails before it does anything, unknown the one
	// that it fails afterwards.
	fail, unknown float64
}

// store is a storage in files that takes its time and sometimes fails.
type store struct {
	checkpoint.Storage
	p *process
	m mishaps

	mu sync.Mutex
	r  *rand.Rand
}

// storage opens the job's storage as the process sees it.
func (p *process) storage(dir string) (*store, error) {
	f, err := filestore.Open(p.world(), dir)
	if err != nil {
		return nil, err
	}
	return &store{Storage: f, p: p, m: p.s.plan.storage, r: p.s.rand("storage" + p.name)}, nil
}

// call wraps one call of the storage.
func (s *store) call(ctx context.Context, op string, f func() error) error {
	s.mu.Lock()
	before, after, luck := s.late(), s.late(), s.r.Float64()
	s.mu.Unlock()
	pause(before)
	if err := s.p.reach(ctx, op+" called"); err != nil {
		return err
	}
	healed := s.p.s.healed.Load()
	if luck < s.m.fail && !healed {
		s.p.s.cov.add("storage/failed/" + op)
		return errDisk
	}
	err := f()
	pause(after)
	if err := s.p.reach(ctx, op+" done"); err != nil {
		return err
	}
	if err == nil && luck > 1-s.m.unknown && !healed {
		s.p.s.cov.add("storage/unknown/" + op)
		return errDisk
	}
	return err
}

func (s *store) late() time.Duration {
	if s.m.latency == 0 {
		return 0
	}
	return time.Duration(s.r.Int64N(int64(s.m.latency)))
}

func (s *store) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	return s.call(ctx, "put", func() error { return s.Storage.PutIfAbsent(ctx, name, data) })
}

func (s *store) Create(ctx context.Context, name string, r io.Reader) (size int64, crc uint32, err error) {
	err = s.call(ctx, "create", func() (err error) {
		size, crc, err = s.Storage.Create(ctx, name, r)
		return err
	})
	return size, crc, err
}

func (s *store) Get(ctx context.Context, name string) (b []byte, err error) {
	err = s.call(ctx, "get", func() (err error) {
		b, err = s.Storage.Get(ctx, name)
		return err
	})
	return b, err
}

func (s *store) Open(ctx context.Context, name string, offset, size int64) (r io.ReadCloser, err error) {
	err = s.call(ctx, "open", func() (err error) {
		r, err = s.Storage.Open(ctx, name, offset, size)
		return err
	})
	return r, err
}

func (s *store) Stat(ctx context.Context, name string) (i checkpoint.Info, err error) {
	err = s.call(ctx, "stat", func() (err error) {
		i, err = s.Storage.Stat(ctx, name)
		return err
	})
	return i, err
}

func (s *store) List(ctx context.Context, prefix string) (is []checkpoint.Info, err error) {
	err = s.call(ctx, "list", func() (err error) {
		is, err = s.Storage.List(ctx, prefix)
		return err
	})
	return is, err
}

func (s *store) Delete(ctx context.Context, name string) error {
	return s.call(ctx, "delete", func() error { return s.Storage.Delete(ctx, name) })
}
