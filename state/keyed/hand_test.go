package keyed

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"etl/state"
	"etl/stream"
)

// TestHandInSegmentGivenBack: the segment in which the sweep's hand stands is given
// back, and another is made in its place, with slots that begin elsewhere. The hand
// must not take the middle of a value for an entry.
func TestHandInSegmentGivenBack(t *testing.T) {
	for name, stand := range map[string]func(*testing.T, *Store){
		"a large value left": func(t *testing.T, s *Store) {
			set(t, s, "first", 2<<20-1000) // has a segment of 2 MiB
			must(t, s.tables[0].begin())
			s.tables[0].sweep(1<<20, s.cur)
		},
		"a segment was emptied": func(t *testing.T, s *Store) {
			tab := s.tables[0]
			for i := range 3 * segSize / 1000 {
				set(t, s, fmt.Sprint(i), 1000)
			}
			must(t, tab.begin())
			tab.sweep(segSize+3<<20, s.cur) // the first segment, and three quarters of the second
			for tab.compact(); tab.victim >= 0; tab.compact() {
			}
			for i := range 4000 {
				set(t, s, fmt.Sprint("other ", i), 2000)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := benchStore(t, NewBudget(0))
			tab := s.tables[0]
			stand(t, s)
			in := tab.handSeg
			if in == 0 {
				t.Fatal("the hand did not move")
			}
			set(t, s, "second", 3<<20) // what lies 2 MiB behind its beginning looks like an entry
			if tab.segs[in].used == 0 {
				t.Fatal("the segment is not used again")
			}
			must(t, tab.begin())
			tab.sweep(3<<20, 0)
			if got, _ := ref(t, s, "second").Get(); !bytes.Equal(got, make([]byte, 3<<20)) {
				t.Errorf("the value is %d bytes", len(got))
			}
		})
	}
}

func set(t *testing.T, s *Store, key string, length int) {
	t.Helper()
	ref(t, s, key).Set(make([]byte, length))
}

func ref(t *testing.T, s *Store, key string) state.Ref {
	t.Helper()
	refs := make([]state.Ref, 1)
	must(t, s.Batch(context.Background(), [][]byte{[]byte(key)}, []uint64{stream.Hash([]byte(key))}, refs))
	return refs[0]
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
