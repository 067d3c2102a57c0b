package idempotent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"etl/checkpoint"
	"etl/stream"
)

// fakeStore takes rows when the test lets it.
type fakeStore struct {
	mu      sync.Mutex
	written []string
	gate    chan struct{} // each write takes one
	fail    error
	tries   int
}

func (s *fakeStore) Open(context.Context, stream.Env) error { return nil }
func (s *fakeStore) Close() error                           { return nil }
func (s *fakeStore) Begin() Rows                            { return &fakeRows{s: s} }

type fakeRows struct {
	s    *fakeStore
	list []string
}

func (r *fakeRows) Add(rec *stream.Record, v Version) (int, error) {
	r.list = append(r.list, fmt.Sprintf("%s@%d", rec.Value, v.N))
	return len(rec.Value), nil
}
func (r *fakeRows) Len() int { return len(r.list) }
func (r *fakeRows) Free()    {}
func (r *fakeRows) Write(ctx context.Context) ([]Rejected, error) {
	select {
	case <-r.s.gate:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.s.tries++
	if r.s.fail != nil {
		return nil, r.s.fail
	}
	r.s.written = append(r.s.written, r.list...)
	return nil, nil
}

func opened(t *testing.T, cfg Config, s *fakeStore) *Writer {
	t.Helper()
	w := NewWriter(cfg, s)
	if err := w.Open(t.Context(), stream.Env{World: stream.SystemWorld(nil), UID: "out", Lineage: stream.Lineage{1}}, nil); err != nil {
		t.Fatal(err)
	}
	return w
}

func write(ctx context.Context, w *Writer, values ...string) error {
	b := stream.NewBatch(nil)
	for _, v := range values {
		b.Append(stream.Record{Value: []byte(v), Version: uint64(len(v))})
	}
	return w.Write(ctx, b, nil)
}

// A barrier waits for nothing, its Finish for every row before it, in their order, and for
// none behind it.
func TestFinishWaitsForItsRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeStore{gate: make(chan struct{})}
		w := opened(t, Config{}, s)
		defer w.Close()
		var errs []error
		errs = append(errs, write(t.Context(), w, "a"), write(t.Context(), w, "bb"), write(t.Context(), w, "ccc"))
		p, err := w.PrepareCommit(t.Context(), 1, nil)
		errs = append(errs, err, write(t.Context(), w, "dddd"))
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { _, err := p.Finish(t.Context(), nil); done <- err }()
		s.gate <- struct{}{}
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("the checkpoint is finished, and two of its rows are not written")
		default:
		}
		s.gate <- struct{}{}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if want := []string{"a@1", "bb@2", "ccc@3"}; !slices.Equal(s.written, want) {
			t.Errorf("written were %v, want %v: what waits goes out together", s.written, want)
		}
	})
}

// Write waits while more than QueueBytes wait, and goes on when they are written.
func TestBackPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeStore{gate: make(chan struct{}, 100)}
		w := opened(t, Config{BatchRows: 2, QueueBytes: 8}, s)
		defer w.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		n := 0
		for write(ctx, w, "1234", "1234") == nil {
			n++
		}
		if n == 0 || n > 3 {
			t.Errorf("%d batches of 8 bytes were taken in with 8 allowed", n)
		}
		for range 10 {
			s.gate <- struct{}{}
		}
		synctest.Wait()
		if err := write(t.Context(), w, "1234", "1234"); err != nil {
			t.Error(err)
		}
	})
}

// A target that is away is tried again for the patience of a checkpoint; then the attempt
// ends, and a restart is exact. What cannot get better ends it at once.
func TestTargetAway(t *testing.T) {
	for class, want := range map[stream.Class]stream.Class{stream.Retry: stream.Restart, stream.Environment: stream.Environment} {
		synctest.Test(t, func(t *testing.T) {
			s := &fakeStore{gate: make(chan struct{}), fail: stream.Errorf(class, "fake.away", "write", "", "away")}
			close(s.gate)
			w := opened(t, Config{Policy: checkpoint.Policy{Timeout: 30 * time.Second}}, s)
			defer w.Close()
			if err := write(t.Context(), w, "a"); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			p, err := w.PrepareCommit(t.Context(), 1, nil)
			if err == nil {
				_, err = p.Finish(t.Context(), nil)
			}
			if stream.ClassOf(err) != want || stream.CodeOf(err) != "fake.away" {
				t.Errorf("class %v: %v", class, err)
			}
			if retried := s.tries > 1; retried != (class == stream.Retry) {
				t.Errorf("class %v: %d tries in %v", class, s.tries, time.Since(begin))
			}
			if err := write(t.Context(), w, "b"); err == nil {
				t.Error("a writer that has failed takes rows")
			}
		})
	}
}

func TestVersions(t *testing.T) {
	r := stream.Record{Topic: "in", Partition: 2, Offset: 0, Version: 9}
	line := stream.Lineage{0xab, 0xcd, 0xef, 0x01}
	for guard, want := range map[Guard]Version{Counter: {"abcdef01", 9}, Position: {"abcdef01/in/2", 1}, NoGuard: {}} {
		if got, err := NewVersions(guard, line).Of(&r); got != want || err != nil {
			t.Errorf("%s: %v, %v; want %v", guard, got, err, want)
		}
	}
	r.Version = 0
	if _, err := NewVersions(Counter, line).Of(&r); stream.CodeOf(err) != "idempotent.no_version" {
		t.Errorf("nobody counted: %v", err)
	}
}
