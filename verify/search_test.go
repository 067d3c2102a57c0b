package verify

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"etl/stream"
)

// every calls f with every interleaving of streams of the given lengths, as a list of
// stream numbers, until f returns true.
func every(lengths []int, f func(order []int) bool) bool {
	left := append([]int(nil), lengths...)
	total := 0
	for _, n := range lengths {
		total += n
	}
	var order []int
	var rec func() bool
	rec = func() bool {
		if len(order) == total {
			return f(order)
		}
		for s := range left {
			if left[s] > 0 {
				left[s]--
				order = append(order, s)
				if rec() {
					return true
				}
				order = order[:len(order)-1]
				left[s]++
			}
		}
		return false
	}
	return rec()
}

func TestInterleavedAgainstAllOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ins := make([][]uint64, rapid.IntRange(1, 3).Draw(t, "streams"))
		var lengths []int
		var out []uint64
		for s := range ins {
			ins[s] = rapid.SliceOfN(rapid.Uint64Range(0, 2), 0, 4).Draw(t, "in")
			lengths = append(lengths, len(ins[s]))
			out = append(out, ins[s]...)
		}
		if rapid.Bool().Draw(t, "shuffled") {
			out = rapid.Permutation(out).Draw(t, "out")
		} else if len(out) > 0 {
			out[0] = rapid.Uint64Range(0, 2).Draw(t, "first")
		}
		want := every(lengths, func(order []int) bool {
			at := make([]int, len(ins))
			for i, s := range order {
				if ins[s][at[s]] != out[i] {
					return false
				}
				at[s]++
			}
			return true
		})
		v, at := Interleaved(out, ins, 1<<20)
		if (v == Explained) != want {
			t.Fatalf("%v of %v: %v at %d, want explained: %v", out, ins, v, at, want)
		}
	})
}

func TestInterleavedGivesUp(t *testing.T) {
	same := make([]uint64, 40)
	if v, _ := Interleaved(append(same, same...), [][]uint64{same, same}, 5); v != GaveUp {
		t.Errorf("verdict %v with 5 ways, want to give up", v)
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

func drawRecord(t *rapid.T) stream.Record {
	b := rapid.SampledFrom([]string{"buy", "cart"}).Draw(t, "b")
	v := fmt.Sprintf(`{"user":7,"b":%q,"p":%s,"q":%d,"name":%q}`, b, rapid.SampledFrom([]string{"1.5", "1.50", "2", "-1"}).Draw(t, "p"),
		rapid.IntRange(1, 2).Draw(t, "q"), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"))
	return stream.Record{Value: []byte(v), Timestamp: int64(rapid.IntRange(1, 2).Draw(t, "ts"))}
}

// rowsOf runs an order of the inputs through the aggregate, by hand.
func rowsOf(h *history, order []int, emitAt func(i int) bool) (out []row) {
	state := make([]cell, len(h.a.items))
	at := make([]int, len(h.ins))
	known, dirty := false, false
	for i, s := range order {
		in := &h.ins[s][at[s]]
		at[s]++
		changed, ok := h.a.add(state, h.a.contributions[in.contribution])
		if ok && (changed || !known) {
			known, dirty = true, true
		} else if h.a.onChange {
			continue
		}
		trigger := in
		if !h.a.onChange {
			trigger = nil
		}
		if dirty && (h.a.onChange || emitAt(i)) {
			dirty = false
			r := row{hash: h.rows(state, trigger)[0], ts: -1, offset: int64(len(out))}
			if trigger != nil {
				r.ts = in.ts
			}
			out = append(out, r)
		}
	}
	return out
}

func historyOf(t *rapid.T, emit string) *history {
	w := &world{spec: behaviourSpec(emit), in: make([][]stream.Record, rapid.IntRange(1, 3).Draw(t, "streams")), out: make([][]kgo.Record, 1)}
	w.opts.withDefaults()
	c, err := newRecounting(&w.spec, &w.opts)
	if err != nil {
		t.Fatal(err)
	}
	for p := range w.in {
		for i := range rapid.IntRange(1, 3).Draw(t, "n") {
			r := drawRecord(t)
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
func TestRunningResultsAgainstAllOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := historyOf(t, "on_change")
		var orders [][]int
		every(h.lengths(), func(order []int) bool {
			orders = append(orders, append([]int(nil), order...))
			return false
		})
		rows := rowsOf(h, rapid.SampledFrom(orders).Draw(t, "order"), nil)
		rows = disturb(t, rows)
		want := false
		for _, o := range orders {
			want = want || startsWith(rowsOf(h, o, nil), rows)
		}
		h.give(rows)
		v := h.judge()
		if got := len(v.findings) == 0; v.gaveUp || got != want {
			t.Fatalf("clean: %v, want %v; %+v", got, want, v)
		}
	})
}

func TestCheckpointResultsAgainstAllOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := historyOf(t, "on_checkpoint")
		var possible [][]row
		every(h.lengths(), func(order []int) bool {
			for mask := range 1 << len(order) {
				possible = append(possible, rowsOf(h, order, func(i int) bool { return mask&(1<<i) != 0 }))
			}
			return len(possible) > 20000
		})
		rows := disturb(t, append([]row(nil), rapid.SampledFrom(possible).Draw(t, "rows")...))
		want := false
		for _, p := range possible {
			want = want || startsWith(p, rows)
		}
		if len(possible) > 20000 {
			t.Skip("too many orders to try all of them")
		}
		h.give(rows)
		v := h.judge()
		if got := len(v.findings) == 0; v.gaveUp || got != want {
			t.Fatalf("clean: %v, want %v; %+v", got, want, v)
		}
	})
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

func startsWith(all, rows []row) bool {
	if len(rows) > len(all) {
		return false
	}
	for i := range rows {
		if rows[i].hash != all[i].hash || rows[i].ts != all[i].ts {
			return false
		}
	}
	return true
}
