package verify

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/stream"
)

// The negative controls: a history with one fault must not pass, and the fault must
// be named.

// mutation makes one fault; false when the history has no place for it.
type mutation struct {
	name string
	make func(rng *rand.Rand, w *world) bool
	want func(c Counts) bool
}

func pick(rng *rand.Rand, w *world) (p, i int, ok bool) {
	for range 100 {
		if p = rng.IntN(len(w.out)); len(w.out[p]) > 0 {
			return p, rng.IntN(len(w.out[p])), true
		}
	}
	return 0, 0, false
}

func faults(c Counts) Counts { c.Uncommitted = 0; return c }

var mutations = []mutation{
	{"removed", func(rng *rand.Rand, w *world) bool {
		p, i, ok := pick(rng, w)
		if ok {
			w.out[p] = append(w.out[p][:i:i], w.out[p][i+1:]...)
		}
		return ok
	}, func(c Counts) bool { return c.Missing+c.Behind == 1 && c.Duplicated+c.Altered+c.OutOfOrder == 0 }},
	{"duplicated", func(rng *rand.Rand, w *world) bool {
		p, i, ok := pick(rng, w)
		if ok {
			j := i + rng.IntN(len(w.out[p])-i)
			w.out[p] = append(w.out[p][:j+1:j+1], append([]kgo.Record{w.out[p][i]}, w.out[p][j+1:]...)...)
		}
		return ok
	}, func(c Counts) bool { return faults(c) == Counts{Duplicated: 1} }},
	{"altered", func(rng *rand.Rand, w *world) bool {
		p, i, ok := pick(rng, w)
		if ok {
			r := &w.out[p][i]
			r.Value = bytes.Replace(append([]byte(nil), r.Value...), []byte(`}`), []byte(`7}`), 1)
		}
		return ok
	}, func(c Counts) bool { return c.Altered == 1 && c.Missing+c.Duplicated+c.OutOfOrder+c.Behind == 0 }},
	{"headers added", func(rng *rand.Rand, w *world) bool {
		p, i, ok := pick(rng, w)
		if ok {
			w.out[p][i].Headers = []kgo.RecordHeader{{Key: "h"}}
		}
		return ok
	}, func(c Counts) bool { return c.Altered == 1 && c.Missing+c.Duplicated+c.OutOfOrder+c.Behind == 0 }},
	{"null value", func(rng *rand.Rand, w *world) bool {
		p, i, ok := pick(rng, w)
		if ok {
			w.out[p][i].Value = nil
		}
		return ok
	}, func(c Counts) bool { return c.Altered == 1 && c.Missing+c.Behind <= 1 }},
}

func TestFaultsInRunningResults(t *testing.T) {
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			for seed := range 80 {
				rng := random(seed)
				w := countWords(rng, lines(rng, 1+rng.IntN(3), 5+rng.IntN(40)), true).clone()
				w.opts.Finished = true
				if !m.make(rng, w) {
					continue
				}
				r := w.judge(t)
				if r.OK || !m.want(r.Counts) {
					t.Fatalf("seed %d: %s", seed, describe(r))
				}
			}
		})
	}
}

// Two rows of one key that change places.
func TestReorderedRunningResults(t *testing.T) {
	for seed := range 80 {
		rng := random(seed)
		w := countWords(rng, lines(rng, 1+rng.IntN(3), 30), true).clone()
		if !swapOfOneKey(rng, w) {
			continue
		}
		w.opts.Finished = true
		r := w.judge(t)
		if r.OK || r.OutOfOrder == 0 || r.Duplicated+r.Altered+r.Missing+r.Behind != 0 {
			t.Fatalf("seed %d: %s", seed, describe(r))
		}
	}
}

func swapOfOneKey(rng *rand.Rand, w *world) bool {
	p, i, ok := pick(rng, w)
	if !ok {
		return false
	}
	out := w.out[p]
	for j := i + 1; j < len(out); j++ {
		if bytes.Equal(out[i].Key, out[j].Key) {
			out[i], out[j] = out[j], out[i]
			return true
		}
	}
	return false
}

// Rows of different keys have no order among each other.
func TestOrderBetweenKeysIsFree(t *testing.T) {
	rng := random(5)
	w := countWords(rng, lines(rng, 2, 60), true).clone()
	for p := range w.out {
		byKey := map[string][]kgo.Record{}
		for _, r := range w.out[p] {
			byKey[string(r.Key)] = append(byKey[string(r.Key)], r)
		}
		w.out[p] = nil
		for _, rs := range byKey {
			w.out[p] = append(w.out[p], rs...)
		}
	}
	mustBeClean(t, w.judge(t))
}

// With on_checkpoint a row between may be left out without a trace, but not the
// last one, and no row may be wrong or repeated.
func TestFaultsInCheckpointResults(t *testing.T) {
	for _, m := range mutations[1:] {
		t.Run(m.name, func(t *testing.T) {
			for seed := range 80 {
				rng := random(seed)
				w := countWords(rng, lines(rng, 1+rng.IntN(3), 5+rng.IntN(40)), false).clone()
				w.opts.Finished = true
				if !m.make(rng, w) {
					continue
				}
				if r := w.judge(t); r.OK {
					t.Fatalf("seed %d: %s", seed, describe(r))
				}
			}
		})
	}
}

func TestLastCheckpointResultMissing(t *testing.T) {
	rng := random(3)
	w := countWords(rng, lines(rng, 3, 40), false).clone()
	for p := range w.out {
		if len(w.out[p]) > 0 {
			w.out[p] = w.out[p][:len(w.out[p])-1]
			break
		}
	}
	w.opts.Finished = true
	if r := w.judge(t); r.OK || r.Missing+r.Behind != 1 {
		t.Fatal(describe(r))
	}
}

// passThrough copies records with what a path without an aggregate must keep.
func passThrough(rng *rand.Rand, partitions, n int, equal bool) *world {
	w := &world{out: make([][]kgo.Record, 3), in: make([][]stream.Record, partitions), spec: Spec{Name: "copy",
		Sources:    []Source{{Name: "src", Topics: []string{inTopic}, Decode: "json"}},
		Transforms: []Transform{{Name: "big", Type: "filter", Inputs: []string{"src"}, Where: "this.n >= 0"}},
		Sinks:      []Sink{{Name: "out", Inputs: []string{"big"}, Topic: outTopic}}}}
	at := make([]int, partitions)
	for i := range n {
		v := i
		if equal {
			v = rng.IntN(6)
		}
		if rng.IntN(10) == 0 {
			v = -1
		}
		r := stream.Record{Key: []byte(fmt.Sprint("k", v%5)), Value: []byte(fmt.Sprintf(`{"n":%d}`, v)), Timestamp: 5}
		p := rng.IntN(partitions)
		w.in[p] = append(w.in[p], r)
	}
	for p := next(rng, w.in, at); p >= 0; p = next(rng, w.in, at) {
		r := w.in[p][at[p]]
		at[p]++
		if !strings.Contains(string(r.Value), "-1") {
			w.emit(r.Key, r.Value, r.Timestamp)
		}
	}
	return w
}

func TestFaultsInPassThrough(t *testing.T) {
	for _, equal := range []bool{false, true} {
		for seed := range 40 {
			rng := random(seed)
			w := passThrough(rng, 1+rng.IntN(3), 5+rng.IntN(60), equal)
			mustBeClean(t, w.judge(t))
			for _, m := range mutations {
				x := w.clone()
				x.opts.Finished = true
				if !m.make(rng, x) {
					continue
				}
				r := x.judge(t)
				if r.OK || !equal && !m.want(r.Counts) {
					t.Fatalf("equal %v, seed %d, %s: %s", equal, seed, m.name, describe(r))
				}
			}
		}
	}
}

// What promises at least once may repeat rows, and neither leave out nor change one.
func TestFaultsInRepeatedPassThrough(t *testing.T) {
	for seed := range 20 {
		rng := random(seed)
		w := passThrough(rng, 2, 5+rng.IntN(60), false)
		w.spec.AtLeastOnce, w.opts.Finished = true, true
		for _, m := range mutations {
			x := w.clone()
			if !m.make(rng, x) {
				continue
			}
			if r := x.judge(t); r.OK != (m.name == "duplicated") || !m.want(r.Counts) {
				t.Fatalf("seed %d, %s: %s", seed, m.name, describe(r))
			}
		}
	}
}

// A row that moves is seen when its rows can be told apart.
func TestReorderedPassThrough(t *testing.T) {
	for seed := range 60 {
		rng := random(seed)
		w := passThrough(rng, 1, 50, seed%2 == 0).clone()
		p, i, ok := pick(rng, w)
		if !ok || i == 0 || bytes.Equal(w.out[p][i].Value, w.out[p][i-1].Value) {
			continue
		}
		w.out[p][i], w.out[p][i-1] = w.out[p][i-1], w.out[p][i]
		if r := w.judge(t); r.OK || r.OutOfOrder != 1 || r.Missing+r.Duplicated+r.Altered != 0 {
			t.Fatalf("seed %d: %s", seed, describe(r))
		}
	}
}

func TestTimeIsPartOfARow(t *testing.T) {
	for _, w := range []*world{passThrough(random(1), 2, 30, false), countWords(random(1), lines(random(1), 2, 30), true)} {
		w = w.clone()
		p, i, _ := pick(random(2), w)
		w.out[p][i].Timestamp = time.UnixMilli(77)
		if r := w.judge(t); r.OK || r.Altered != 1 {
			t.Error(describe(r))
		}
	}
}

// again makes the history of a job that went back: it wrote rows, restarted from an
// earlier state, and took its records in another order from there.
func again(rng *rand.Rand, w *world) (extra int) {
	counts, at := map[string]int{}, make([]int, len(w.in))
	steps := func(n int) {
		for range n {
			p := next(rng, w.in, at)
			if p < 0 {
				return
			}
			line := w.in[p][at[p]]
			at[p]++
			for _, word := range strings.Fields(strings.ToLower(string(line.Value))) {
				counts[word]++
				w.emit([]byte(word), fmt.Appendf(nil, `{"word":%q,"n":%d}`, word, counts[word]), line.Timestamp)
			}
		}
	}
	rows := func() (n int) {
		for p := range w.out {
			n += len(w.out[p])
		}
		return n
	}
	steps(20)
	saved, savedAt, before := map[string]int{}, append([]int(nil), at...), rows()
	for word, n := range counts {
		saved[word] = n
	}
	steps(15)
	extra = rows() - before
	counts, at = saved, savedAt
	steps(1000)
	return extra
}

func TestRowsWrittenAgain(t *testing.T) {
	for seed := range 40 {
		rng := random(seed)
		w := &world{spec: wordSpec("on_change"), in: lines(rng, 3, 80), out: make([][]kgo.Record, 3)}
		extra := again(rng, w)
		w.opts.Finished = true
		if r := w.judge(t); r.OK != (extra == 0) || r.Duplicated == 0 && extra > 0 {
			t.Fatalf("seed %d, %d extra: %s", seed, extra, describe(r))
		}
		w.spec.AtLeastOnce = true
		if r := w.judge(t); !r.OK || r.Missing != 0 || r.Duplicated != int64(extra) {
			t.Fatalf("seed %d, %d extra, at least once: %s", seed, extra, describe(r))
		}
		for p := range w.out { // and one record without a row at all
			if len(w.out[p]) == 0 {
				continue
			}
			ts, kept := w.out[p][0].Timestamp, []kgo.Record(nil)
			for _, r := range w.out[p] {
				if !r.Timestamp.Equal(ts) {
					kept = append(kept, r)
				}
			}
			w.out[p] = kept
			break
		}
		if r := w.judge(t); r.OK || r.Missing == 0 {
			t.Fatalf("seed %d, at least once: %s", seed, describe(r))
		}
	}
}

// twoCounts is a job by hand whose inputs do not all contribute the same, so that the
// places of its checkpoints are found by merging.
func twoCounts(rng *rand.Rand, n int) *world {
	w := &world{in: make([][]stream.Record, 3), out: make([][]kgo.Record, 3), spec: Spec{Name: "two",
		Sources: []Source{{Name: "src", Topics: []string{inTopic}}},
		Transforms: []Transform{{Name: "user", Type: "aggregate", Inputs: []string{"src"}, Key: []string{"this.user"},
			Aggregates: []Aggregate{{Name: "n", Op: "count"}, {Name: "buys", Op: "count", Where: "this.buy"}}}},
		Sinks: []Sink{{Name: "out", Inputs: []string{"user"}, Topic: outTopic, Key: "this.user"}}}}
	type counts struct{ n, buys int }
	state, dirty := map[int]counts{}, map[int]bool{}
	flush := func() {
		for user := range dirty {
			c := state[user]
			w.emit([]byte(fmt.Sprint(user)), fmt.Appendf(nil, `{"user":%d,"n":%d,"buys":%d}`, user, c.n, c.buys), -1)
		}
		clear(dirty)
	}
	for i := range n {
		user, buy, p := rng.IntN(4), rng.IntN(2) == 0, rng.IntN(3)
		w.in[p] = append(w.in[p], stream.Record{Value: fmt.Appendf(nil, `{"user":%d,"buy":%v}`, user, buy), Timestamp: int64(i)})
		c := state[user]
		c.n++
		if buy {
			c.buys++
		}
		state[user], dirty[user] = c, true
		if rng.IntN(30) == 0 {
			flush()
		}
	}
	flush()
	return w
}

func TestFaultsInMergedResults(t *testing.T) {
	for seed := range 20 {
		rng := random(seed)
		w := twoCounts(rng, 300)
		w.opts.Finished = true
		r := w.judge(t)
		mustBeClean(t, r)
		if notChecked(r, "between the first and the last") {
			t.Errorf("seed %d: %s", seed, describe(r))
		}
		for _, m := range mutations[1:] {
			x := w.clone()
			if !m.make(rng, x) {
				continue
			}
			if r := x.judge(t); r.OK {
				t.Fatalf("seed %d, %s: %s", seed, m.name, describe(r))
			}
		}
		for p := range w.out {
			if x := w.clone(); len(x.out[p]) > 0 {
				x.out[p] = x.out[p][:len(x.out[p])-1]
				if r := x.judge(t); r.OK || r.Missing+r.Behind != 1 {
					t.Fatalf("seed %d, last row of %d: %s", seed, p, describe(r))
				}
			}
		}
	}
}
