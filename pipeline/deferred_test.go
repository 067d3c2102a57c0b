package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"etl/checkpoint"
)

// TestDeferredBeginsEmpty: a start without state leaves to the lanes what the life before
// it had published, and dies once its checkpoint 0 is there. The start after that one
// knows it still: it is delivered, before the rows that are read again.
func TestDeferredBeginsEmpty(t *testing.T) {
	deferredLeft(t, func(s *simulation, left []*memTxn) {
		s.restore.Empty = true
		s.dieAt("recover.initial_published")
		s.restore = RestoreOptions{}
		if n := len(s.out.committed); n > 0 {
			s.t.Fatalf("%d rows are committed already", n)
		}
		if err := s.start(false); err != nil {
			s.t.Fatal(err)
		}
		s.checkAfter(left)
	})
}

// TestDeferredSettle: finishing what is in doubt neither commits nor aborts what is left
// to the lanes; the next start delivers it.
func TestDeferredSettle(t *testing.T) {
	deferredLeft(t, func(s *simulation, left []*memTxn) {
		j, err := NewJob(s.graph(), s.options())
		if err != nil {
			s.t.Fatal(err)
		}
		if err := j.Settle(context.Background(), Settlement{Commit: true, Abort: true}); err != nil {
			s.t.Fatal(err)
		}
		for _, tx := range left {
			if tx.state != "open" {
				s.t.Errorf("what checkpoint %s lists of %s is %s", tx.checkpoint, tx.lane, tx.state)
			}
		}
		if err := s.start(false); err != nil {
			s.t.Fatal(err)
		}
		s.check()
	})
}

// deferredLeft runs f on jobs that died when their first checkpoint was published and
// nothing of it delivered.
func deferredLeft(t *testing.T, f func(s *simulation, left []*memTxn)) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulation(t, seed)
				s.deferred, s.slow = true, 70*time.Millisecond // more than an interval
				s.dieAt("checkpoint.published")
				h, err := checkpoint.ReadHistory(context.Background(), s.store)
				if err != nil {
					t.Fatal(err)
				}
				var left []*memTxn
				for _, c := range h.Newest().Committables {
					left = append(left, s.out.txns[string(c.Payload)])
				}
				if len(left) == 0 || slices.ContainsFunc(left, func(tx *memTxn) bool { return tx.state != "open" }) {
					t.Fatalf("nothing is left to the lanes: %v", left)
				}
				f(s, left)
			})
		})
	}
}

// checkAfter is check for a job that has read its input twice: what was left of the
// first time comes first, for each key.
func (s *simulation) checkAfter(left []*memTxn) {
	want, got := map[string][]string{}, map[string][]string{}
	for _, tx := range left {
		for _, r := range tx.rows {
			want[r.key] = append(want[r.key], r.value)
		}
	}
	count := map[string]int{}
	for _, p := range s.out.partitions["in"] {
		for _, k := range p {
			count[k]++
			want[k] = append(want[k], strconv.Itoa(count[k]))
		}
	}
	for _, r := range s.out.committed {
		got[r.key] = append(got[r.key], r.value)
	}
	for k := range want {
		if !slices.Equal(got[k], want[k]) {
			s.t.Errorf("seed %d: key %s has the counts %v, want %v", s.seed, k, got[k], want[k])
		}
	}
}
