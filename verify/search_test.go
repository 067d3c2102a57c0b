package verify

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"etl/stream"
)

// places walks through all places in streams of the given lengths, from the start, as
// far as step allows: step(place, s) says whether stream s may go on from there. It
// returns all places that are reached.
func places(lengths []int, step func(at []int, s int) bool) map[string][]int {
	start := make([]int, len(lengths))
	reached := map[string][]int{fmt.Sprint(start): start}
	todo := [][]int{start}
	for len(todo) > 0 {
		at := todo[0]
		todo = todo[1:]
		for s := range lengths {
			if at[s] == lengths[s] || !step(at, s) {
				continue
			}
			next := append([]int(nil), at...)
			next[s]++
			if reached[fmt.Sprint(next)] == nil {
				reached[fmt.Sprint(next)] = next
				todo = append(todo, next)
			}
		}
	}
	return reached
}

func sum(list []int) (n int) {
	for _, i := range list {
		n += i
	}
	return n
}

func TestInterleavedAgainstAllPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ins := make([][]uint64, rapid.IntRange(1, 4).Draw(t, "streams"))
		var lengths, left []int
		alphabet := rapid.Uint64Range(1, 3).Draw(t, "alphabet")
		for s := range ins {
			ins[s] = rapid.SliceOfN(rapid.Uint64Range(1, alphabet), 0, 6).Draw(t, "in")
			lengths, left = append(lengths, len(ins[s])), append(left, len(ins[s]))
		}
		var out []uint64
		for sum(left) > 0 {
			s := rapid.IntRange(0, len(ins)-1).Draw(t, "s")
			for left[s] == 0 {
				s = (s + 1) % len(ins)
			}
			out = append(out, ins[s][lengths[s]-left[s]])
			left[s]--
		}
		if len(out) > 1 && rapid.Bool().Draw(t, "disturbed") {
			i, j := rapid.IntRange(0, len(out)-1).Draw(t, "i"), rapid.IntRange(0, len(out)-1).Draw(t, "j")
			out[i], out[j] = out[j], out[i]
		}
		reached := places(lengths, func(at []int, s int) bool { return ins[s][at[s]] == out[sum(at)] })
		want := reached[fmt.Sprint(lengths)] != nil
		v, at := Interleaved(out, ins, 1<<20)
		if (v == Explained) != want {
			t.Fatalf("%v of %v: %v at %d, want explained: %v", out, ins, v, at, want)
		}
	})
}

// Streams that are alike give many ways; with too few of them allowed there is no
// verdict.
func TestInterleavedGivesUp(t *testing.T) {
	in := []uint64{1, 2, 1, 2, 1, 2, 1, 2}
	out := []uint64{1, 1, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2}
	if v, _ := Interleaved(out, [][]uint64{in, in}, 1); v != GaveUp {
		t.Errorf("verdict %v with one way, want to give up", v)
	}
	if v, _ := Interleaved(out, [][]uint64{in, in}, 100); v != Explained {
		t.Errorf("verdict %v, want explained", v)
	}
}

// Runs of equal elements do not multiply the ways.
func TestInterleavedRuns(t *testing.T) {
	run := func(n int, word uint64) (out []uint64) {
		for range n {
			out = append(out, word)
		}
		return out
	}
	one := append(run(1000, 1), run(1000, 2)...)
	out := append(run(2500, 1), run(500, 2)...)
	out = append(append(out, run(500, 1)...), run(2500, 2)...)
	if v, at := Interleaved(out, [][]uint64{one, one, one}, 20); v != Explained {
		t.Errorf("verdict %v at %d", v, at)
	}
}

// behaviourSpec has results of every kind.
func behaviourSpec(emit string) Spec {
	return Spec{Name: "behaviour",
		Sources: []Source{{Name: "src", Topics: []string{inTopic}, OnError: "skip"}},
		Transforms: []Transform{{Name: "user", Type: "aggregate", Inputs: []string{"src"}, Key: []string{"this.user"}, Emit: emit, OnError: "skip", Aggregates: []Aggregate{
			{Name: "buy", Op: "count", Where: `this.b == "buy"`}, {Name: "spent", Op: "sum", Of: "this.p * this.q", Where: `this.b == "buy"`},
			{Name: "low", Op: "min", Of: "this.p ?? 0"}, {Name: "high", Op: "max", Of: "this.name ?? \"\""}}}},
		Sinks: []Sink{{Name: "out", Inputs: []string{"user"}, Topic: outTopic, Key: "this.key"}}}
}

func drawRecord(t *rapid.T, plain bool) stream.Record {
	b := rapid.SampledFrom([]string{"buy", "cart"}).Draw(t, "b")
	price, quantity, name := "1.5", 1, "a"
	if !plain {
		price = rapid.SampledFrom([]string{"1.5", "1.50", "2", "-1"}).Draw(t, "p")
		quantity = rapid.IntRange(1, 2).Draw(t, "q")
		name = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name")
	}
	v := fmt.Sprintf(`{"user":7,"b":%q,"p":%s,"q":%d,"name":%q}`, b, price, quantity, name)
	return stream.Record{Value: []byte(v), Timestamp: int64(rapid.IntRange(1, 2).Draw(t, "ts"))}
}

// job runs the aggregate by hand along a random order, and writes rows.
func job(t *rapid.T, h *history, texts map[uint64][]byte) (out []row) {
	state, at := make([]cell, len(h.a.items)), make([]int, len(h.ins))
	known, dirty := false, false
	for left := h.lengths(); sum(left) > 0; {
		s := rapid.IntRange(0, len(left)-1).Draw(t, "s")
		for left[s] == 0 {
			s = (s + 1) % len(left)
		}
		in := &h.ins[s][at[s]]
		at[s]++
		left[s]--
		changed, _ := h.a.add(state, h.a.contributions[in.contribution])
		changed = changed || !known
		known, dirty = true, dirty || changed
		switch {
		case h.a.onChange && changed:
			out = append(out, row{hash: h.rows(state, in)[0], ts: in.ts, offset: int64(len(out))})
		case !h.a.onChange && dirty && rapid.IntRange(0, 2).Draw(t, "checkpoint") == 0:
			dirty = false
			out = append(out, row{hash: h.rows(state, nil)[0], ts: -1, offset: int64(len(out))})
			if texts != nil {
				texts[out[len(out)-1].hash] = append([]byte(nil), h.text...)
			}
		}
	}
	return out
}

// point is a place in the history with what else decides how it can go on.
type point struct {
	at    []int
	used  int
	dirty bool
}

// explained tries all places there are: no input is preferred to another.
func explained(h *history, rows []row) bool {
	seen := map[string]bool{}
	todo := []point{{at: make([]int, len(h.ins))}}
	for len(todo) > 0 {
		p := todo[0]
		todo = todo[1:]
		if seen[fmt.Sprint(p)] {
			continue
		}
		seen[fmt.Sprint(p)] = true
		if p.used == len(rows) {
			return true
		}
		state := h.stateAt(p.at)
		if !h.a.onChange && p.dirty && h.rows(state, nil)[0] == rows[p.used].hash {
			todo = append(todo, point{p.at, p.used + 1, false})
		}
		for s := range h.ins {
			if p.at[s] == len(h.ins[s]) {
				continue
			}
			next := point{append([]int(nil), p.at...), p.used, p.dirty}
			next.at[s]++
			in := &h.ins[s][p.at[s]]
			after := append([]cell(nil), state...)
			changed, _ := h.a.add(after, h.a.contributions[in.contribution])
			changed = changed || sum(p.at) == 0
			next.dirty = next.dirty || changed
			if h.a.onChange && changed {
				if r := rows[p.used]; r.hash != h.rows(after, in)[0] || r.ts != in.ts {
					continue
				}
				next.used++
			}
			todo = append(todo, next)
		}
	}
	return false
}

// stateAt adds up all inputs before a place. In these tests that does not depend on
// their order.
func (h *history) stateAt(at []int) []cell {
	state := make([]cell, len(h.a.items))
	for s, n := range at {
		for i := range n {
			h.a.add(state, h.a.contributions[h.ins[s][i].contribution])
		}
	}
	return state
}

func historyOf(t *rapid.T, emit string) *history {
	w := &world{spec: behaviourSpec(emit), in: make([][]stream.Record, rapid.IntRange(1, 4).Draw(t, "streams")), out: make([][]kgo.Record, 1)}
	plain := rapid.Bool().Draw(t, "plain")
	w.opts.withDefaults()
	c, err := newRecounting(&w.spec, &w.opts)
	if err != nil {
		t.Fatal(err)
	}
	for p := range w.in {
		for i := range rapid.IntRange(1, 4).Draw(t, "n") {
			r := drawRecord(t, plain)
			r.Topic, r.Partition, r.Offset = inTopic, int32(p), int64(i)
			c.enter(c.order[0], &r)
		}
	}
	target := c.targets[0]
	k := &keyedCheck{t: target, k: target.keyed[0], a: target.keyed[0].agg, r: c.r, o: c.o}
	return k.history(0, c.aggs[0].keyed[0].group)
}

func (h *history) lengths() (out []int) {
	for _, in := range h.ins {
		out = append(out, len(in))
	}
	return out
}

// give makes rows the rows of the key.
func (h *history) give(rows []row) {
	h.outs, h.total = nil, len(rows)
	if len(rows) > 0 {
		h.outs = [][]row{rows}
	}
}

// The search finds an order exactly when there is one.
func TestSearchAgainstAllPlaces(t *testing.T) {
	for _, emit := range []string{"on_change", "on_checkpoint"} {
		t.Run(emit, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				h := historyOf(t, emit)
				rows := disturb(t, job(t, h, nil))
				want := explained(h, rows)
				h.give(rows)
				v := h.judge(mendMost)
				if got := len(v.findings) == 0; v.gaveUp || got != want {
					t.Fatalf("clean: %v, want %v; %+v", got, want, v)
				}
			})
		})
	}
}

// disturb leaves rows as they are, or makes one fault.
func disturb(t *rapid.T, rows []row) []row {
	if len(rows) == 0 {
		return rows
	}
	i, j := rapid.IntRange(0, len(rows)-1).Draw(t, "i"), rapid.IntRange(0, len(rows)-1).Draw(t, "j")
	switch rapid.IntRange(0, 4).Draw(t, "fault") {
	case 0:
		rows = append(rows[:i:i], rows[i+1:]...)
	case 1:
		rows[i], rows[j] = rows[j], rows[i]
	case 2:
		rows = append(rows, rows[i])
	case 3:
		rows[i].hash++
	}
	return rows
}
