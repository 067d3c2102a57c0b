package pipeline

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"etl/state"
	"etl/stream"
)

// laggingState takes a while for everything.
type laggingState struct{ memState }

func (s *laggingState) Batch(ctx context.Context, keys [][]byte, hashes []uint64, refs []state.Ref) error {
	time.Sleep(5 * time.Millisecond)
	err := s.memState.Batch(ctx, keys, hashes, refs)
	for i := range refs {
		refs[i].E = s
	}
	return err
}

func (s *laggingState) Mutable(at uint64, n int) []byte {
	time.Sleep(2 * time.Millisecond)
	return s.memState.Mutable(at, n)
}

// TestStateIsTimed: one look-up of many is timed, and of its changes one.
func TestStateIsTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		env := &stream.Env{World: stream.SystemWorld(nil), UID: "count", Listener: &stream.Listener{State: func(e stream.StateEvent) {
			told = append(told, fmt.Sprint(e.Task, " ", e.Op, " ", e.Took))
		}}}
		s := newTimed(&laggingState{memState{m: map[string][]byte{}}}, env)
		keys, hashes, refs := [][]byte{[]byte("a"), []byte("b")}, []uint64{1, 2}, make([]state.Ref, 2)
		for range 1 + sampleEvery {
			if err := s.Batch(t.Context(), keys, hashes, refs); err != nil {
				t.Fatal(err)
			}
			for _, r := range []state.Ref{refs[1], refs[0], refs[0]} {
				r.Mutable(size(r) + 1)
			}
		}
		if want := []string{"count/0 read 5ms", "count/0 write 2ms", "count/0 read 5ms", "count/0 write 2ms"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		a, _ := refs[0].Get()
		b, _ := refs[1].Get()
		if len(a) != 2*(1+sampleEvery) || len(b) != 1+sampleEvery {
			t.Errorf("the values are %d and %d bytes long", len(a), len(b))
		}
	})
}

// size is how long a value is.
func size(r state.Ref) int {
	v, _ := r.Get()
	return len(v)
}

// still is keyed state of one entry.
type still struct {
	state.Keyed
	value [8]byte
}

func (s *still) Batch(_ context.Context, _ [][]byte, _ []uint64, refs []state.Ref) error {
	refs[0].E = s
	return nil
}

func (s *still) Mutable(uint64, int) []byte { return s.value[:] }

// TestTimingAllocatesNothing: neither look-ups that are timed nor those that are not.
func TestTimingAllocatesNothing(t *testing.T) {
	told := 0
	env := &stream.Env{World: stream.SystemWorld(nil), UID: "count", Listener: &stream.Listener{State: func(stream.StateEvent) { told++ }}}
	s := newTimed(&still{}, env)
	keys, hashes, refs := [][]byte{[]byte("a")}, []uint64{1}, make([]state.Ref, 1)
	n := testing.AllocsPerRun(30, func() {
		for range sampleEvery {
			if err := s.Batch(context.Background(), keys, hashes, refs); err != nil {
				t.Fatal(err)
			}
			refs[0].Mutable(8)
		}
	})
	if n > 0 || told != 2*31 {
		t.Errorf("%v allocations, %d times told", n, told)
	}
}

func BenchmarkTimed(b *testing.B) {
	env := &stream.Env{World: stream.SystemWorld(nil), UID: "count", Listener: &stream.Listener{State: func(stream.StateEvent) {}}}
	keys, hashes, refs := [][]byte{[]byte("a")}, []uint64{1}, make([]state.Ref, 1)
	for name, s := range map[string]state.Keyed{"plain": &still{}, "timed": newTimed(&still{}, env)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_ = s.Batch(context.Background(), keys, hashes, refs)
			}
		})
	}
}
