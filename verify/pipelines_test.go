package verify

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/stream"
)

func notChecked(r *Result, part string) bool {
	for _, s := range r.NotChecked {
		if strings.Contains(s, part) {
			return true
		}
	}
	return false
}

// counted makes the rows of a word count with other sinks behind it: f gets each
// update and emits what the sink would hold.
func counted(w *world, f func(word string, n int, ts int64)) {
	counts, at := map[string]int{}, make([]int, len(w.in))
	rng := random(11)
	for p := next(rng, w.in, at); p >= 0; p = next(rng, w.in, at) {
		line := w.in[p][at[p]]
		at[p]++
		for _, word := range strings.Fields(strings.ToLower(string(line.Value))) {
			counts[word]++
			f(word, counts[word], line.Timestamp)
		}
	}
}

func wordWorld(partitions int) *world {
	return &world{spec: wordSpec("on_change"), in: lines(random(3), partitions, 60), out: make([][]kgo.Record, 3)}
}

// The key of the aggregate stands in the row's key only.
func TestKeyInKey(t *testing.T) {
	w := wordWorld(2)
	w.spec.Sinks[0].Value, w.spec.Sinks[0].Encode = "this.n", "text"
	counted(w, func(word string, n int, ts int64) { w.emit([]byte(word), []byte(strconv.Itoa(n)), ts) })
	mustBeClean(t, w.judge(t))
	x := w.clone()
	x.out[1] = x.out[1][1:]
	if r := x.judge(t); r.OK || r.Missing != 1 {
		t.Error(describe(r))
	}
}

// A map renames the key, and a filter lets only some updates through.
func TestBehindAnAggregate(t *testing.T) {
	w := wordWorld(3)
	w.spec.Transforms = append(w.spec.Transforms,
		Transform{Name: "some", Type: "filter", Inputs: []string{"counts"}, Where: "this.n % 3 == 0", Parallelism: 2},
		Transform{Name: "short", Type: "map", Inputs: []string{"some"}, Map: []Field{{"w", "this.word"}, {"twice", "this.n * 2"}}, Parallelism: 2})
	w.spec.Sinks[0].Inputs, w.spec.Sinks[0].Key = []string{"short"}, "this.w"
	counted(w, func(word string, n int, ts int64) {
		if n%3 == 0 {
			w.emit([]byte(word), []byte(fmt.Sprintf(`{"w":%q,"twice":%d}`, word, 2*n)), ts)
		}
	})
	mustBeClean(t, w.judge(t))
	x := w.clone()
	for p := range x.out {
		if len(x.out[p]) > 2 {
			x.out[p] = append(x.out[p][:1:1], x.out[p][2:]...)
			break
		}
	}
	if r := x.judge(t); r.OK {
		t.Error(describe(r))
	}
}

// Rows without a key lie in any partition: the order between partitions is free.
func TestRowsOfOneKeyInSeveralPartitions(t *testing.T) {
	w := wordWorld(2)
	w.spec.Sinks[0].Key = ""
	rng := random(1)
	counted(w, func(word string, n int, ts int64) {
		p := rng.IntN(3)
		w.out[p] = append(w.out[p], kgo.Record{Value: []byte(fmt.Sprintf(`{"word":%q,"n":%d}`, word, n)), Timestamp: time.UnixMilli(ts)})
	})
	mustBeClean(t, w.judge(t))
	x := w.clone()
	x.out[0] = x.out[0][1:]
	if r := x.judge(t); r.OK || r.Missing != 1 {
		t.Error(describe(r))
	}
}

// Two aggregates in a row: only a plain count can be checked, and that is said.
func TestNestedAggregates(t *testing.T) {
	w := wordWorld(2)
	w.spec.Transforms = append(w.spec.Transforms, Transform{Name: "updates", Type: "aggregate", Inputs: []string{"counts"}, Key: []string{"len(this.word)"},
		Aggregates: []Aggregate{{Name: "n", Op: "count"}}, Emit: "on_change", Parallelism: 2})
	w.spec.Sinks[0].Inputs, w.spec.Sinks[0].Key = []string{"updates"}, "this.key"
	totals := map[int]int{}
	counted(w, func(word string, _ int, ts int64) {
		totals[len(word)]++
		w.emit([]byte(strconv.Itoa(len(word))), []byte(fmt.Sprintf(`{"key":%d,"n":%d}`, len(word), totals[len(word)])), ts)
	})
	r := w.judge(t)
	if !r.OK || !notChecked(r, "takes from the aggregate counts") {
		t.Error(describe(r))
	}
	x := w.clone()
	x.out[0] = append(x.out[0][:1:1], x.out[0][2:]...)
	if r := x.judge(t); r.OK || r.Missing != 1 {
		t.Error(describe(r))
	}
}

// What cannot be told apart is not checked, and that is said.
func TestOpaqueSink(t *testing.T) {
	w := wordWorld(1)
	w.spec.Sinks[0].Key, w.spec.Sinks[0].Map = "", []Field{{"n", "this.n"}}
	counted(w, func(_ string, n int, ts int64) { w.emit(nil, []byte(fmt.Sprintf(`{"n":%d}`, n)), ts) })
	if r := w.judge(t); !r.OK || len(r.Checked) != 0 || !notChecked(r, "do not show the key") {
		t.Error(describe(r))
	}
}

// An aggregate and a copy in one topic are told apart by the fields of their rows.
func TestSeveralFeeds(t *testing.T) {
	w := wordWorld(2)
	w.spec.Sinks[0].Inputs = []string{"counts", "words"}
	w.spec.Sinks[0].Parallelism = 2
	counted(w, func(word string, n int, ts int64) {
		w.emit([]byte(word), []byte(fmt.Sprintf(`{"word":%q,"n":%d}`, word, n)), ts)
		w.emit([]byte(word), []byte(fmt.Sprintf(`{"word":%q}`, word)), ts)
	})
	mustBeClean(t, w.judge(t))
	for i := range w.out[0] {
		x := w.clone()
		x.out[0] = append(x.out[0][:i:i], x.out[0][i+1:]...)
		if r := x.judge(t); r.Missing+r.Behind != 1 {
			t.Error(describe(r))
		}
	}
}

// A hop over another number of subtasks keeps no order, so none is demanded.
func TestDealtOutRecords(t *testing.T) {
	w := passThrough(random(1), 1, 40, false)
	w.spec.Transforms[0].Parallelism = 3
	w = w.clone()
	for p := range w.out {
		for i, j := 0, len(w.out[p])-1; i < j; i, j = i+1, j-1 {
			w.out[p][i], w.out[p][j] = w.out[p][j], w.out[p][i]
		}
	}
	r := w.judge(t)
	mustBeClean(t, r)
	if !notChecked(r, "promises none") {
		t.Error(describe(r))
	}
}

// Records that a component cannot process are left out under skip; under fail the
// job cannot have got past them.
func TestRejectedRecords(t *testing.T) {
	w := passThrough(random(1), 1, 20, false)
	w.in[0] = append(w.in[0], stream.Record{Value: []byte("{not json")})
	if r := w.judge(t); !r.OK || !notChecked(r, "cannot process 1 records") {
		t.Error(describe(r))
	}
	w.spec.Sources[0].OnError = "skip"
	mustBeClean(t, w.judge(t))
}

func TestBehindIsNotMissing(t *testing.T) {
	w := countWords(random(4), lines(random(4), 1, 40), true).clone()
	all := 0
	for p := range w.out {
		all += len(w.out[p])
	}
	// The job has processed the first half of its only partition.
	half := w.clone()
	left := 0
	for p := range half.out {
		var kept []kgo.Record
		for _, r := range half.out[p] {
			if r.Timestamp.UnixMilli() < 1007 {
				kept = append(kept, r)
			} else {
				left++
			}
		}
		half.out[p] = kept
	}
	r := half.judge(t)
	if !r.OK || r.Missing != 0 || r.Behind != int64(left) || left == 0 || left == all {
		t.Errorf("left %d of %d: %s", left, all, describe(r))
	}
	half.opts.Finished = true
	if r := half.judge(t); r.OK {
		t.Error(describe(r))
	}
}

func TestProblems(t *testing.T) {
	for _, c := range []struct {
		change func(*Spec)
		want   string
	}{
		{func(s *Spec) { s.Sources[0].Start = "latest" }, "only the job knows where it began"},
		{func(s *Spec) { s.Sinks = nil }, "nothing to compare"},
		{func(s *Spec) { s.Transforms[0].Inputs = []string{"nobody"} }, "does not exist"},
		{func(s *Spec) { s.Transforms[1].Key = []string{"this.wrd"} }, "near: word"},
		{func(s *Spec) { s.Sources[0].Decode = "avro" }, "not json, text or raw"},
	} {
		s := wordSpec("on_change")
		c.change(&s)
		if _, err := Verify(t.Context(), s, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
