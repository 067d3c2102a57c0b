package stream

import (
	"testing"

	"pgregory.net/rapid"
)

// TestKeyGroupsCover checks that the ranges of the subtasks are disjoint, cover
// all groups, and agree with SubtaskOf, for every parallelism.
func TestKeyGroupsCover(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.IntRange(1, 1<<15).Draw(t, "max")
		p := rapid.IntRange(1, min(m, 200)).Draw(t, "parallelism")
		next := KeyGroup(0)
		for s := range p {
			r := RangeOf(s, p, m)
			if r.From != next || r.Len() < m/p || r.Len() > m/p+1 {
				t.Fatalf("subtask %d of %d has [%d,%d) of %d", s, p, r.From, r.To, m)
			}
			for _, g := range []KeyGroup{r.From, r.To - 1} {
				if got := SubtaskOf(g, p, m); r.Len() > 0 && got != s {
					t.Fatalf("group %d belongs to subtask %d by range, %d by SubtaskOf", g, s, got)
				}
			}
			next = r.To
		}
		if int(next) != m {
			t.Fatalf("the ranges end at %d instead of %d", next, m)
		}
	})
}

// TestHashIsForEver: state and output partitions follow from the hash, so these
// values may never change.
func TestHashIsForEver(t *testing.T) {
	for key, want := range map[string]uint64{"": 0, "a": 0xff8583492b6b9cb1, "user-00000001": 0x88f4540a65da7a1d} {
		if got := Hash([]byte(key)); got != want {
			t.Errorf("Hash(%q) = %#x, it has always been %#x", key, got, want)
		}
	}
	if g := KeyGroupOf(Hash([]byte("user-00000001")), DefaultMaxParallelism); g != 68 {
		t.Errorf("user-00000001 is in key group %d, it has always been 68", g)
	}
}
