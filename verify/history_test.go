package verify

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/stream"
)

// world is a source topic and a sink topic in memory: a history to be judged.
type world struct {
	spec Spec
	opts Options
	in   [][]stream.Record // by partition
	out  [][]kgo.Record    // by partition, offsets filled in by judge
}

const inTopic, outTopic = "in", "out"

func (w *world) judge(t testing.TB) *Result {
	t.Helper()
	w.opts.withDefaults()
	c, err := newRecounting(&w.spec, &w.opts)
	if err != nil {
		t.Fatal(err)
	}
	target := c.targets[0]
	target.bounds = make([]bounds, len(w.out))
	target.sums = make([]uint64, len(w.out))
	for p := range w.out {
		for i := range w.out[p] {
			r := w.out[p][i]
			r.Topic, r.Partition, r.Offset = outTopic, int32(p), int64(i)
			target.add(&r)
		}
	}
	for p := range w.in {
		for i := range w.in[p] {
			r := w.in[p][i]
			r.Topic, r.Partition, r.Offset = inTopic, int32(p), int64(i)
			c.r.RecordsIn++
			c.enter(c.order[0], &r)
		}
	}
	c.r.RecordsOut = target.res.Rows
	return c.conclude()
}

func (w *world) clone() *world {
	c := *w
	c.out = make([][]kgo.Record, len(w.out))
	for p := range w.out {
		c.out[p] = append([]kgo.Record(nil), w.out[p]...)
	}
	return &c
}

// emit appends a row where its key puts it.
func (w *world) emit(key, value []byte, ts int64) {
	p := 0
	if key != nil {
		p = int(murmur2(key)&0x7fffffff) % len(w.out)
	}
	w.out[p] = append(w.out[p], kgo.Record{Key: key, Value: value, Timestamp: time.UnixMilli(ts)})
}

// lines makes text of few words in some partitions.
func lines(rng *rand.Rand, partitions, n int) (in [][]stream.Record) {
	words := []string{"the", "quick", "brown", "fox", "The", "jumps"}
	in = make([][]stream.Record, partitions)
	for i := range n {
		var ws []string
		for range rng.IntN(5) {
			ws = append(ws, words[rng.IntN(len(words))])
		}
		p := rng.IntN(partitions)
		in[p] = append(in[p], stream.Record{Value: []byte(strings.Join(ws, " ")), Timestamp: 1000 + int64(i)/3})
	}
	return in
}

func wordSpec(emit string) Spec {
	return Spec{Name: "words",
		Sources: []Source{{Name: "lines", Topics: []string{inTopic}, Decode: "text", Parallelism: 2}},
		Transforms: []Transform{
			{Name: "words", Type: "flat_map", Inputs: []string{"lines"}, Each: `split(lower(trim(this.value)), " ")`, Where: `it != ""`, Map: []Field{{"word", "it"}}, Parallelism: 2},
			{Name: "counts", Type: "aggregate", Inputs: []string{"words"}, Key: []string{"this.word"}, Aggregates: []Aggregate{{Name: "n", Op: "count"}}, Emit: emit, Parallelism: 2}},
		Sinks: []Sink{{Name: "out", Inputs: []string{"counts"}, Topic: outTopic, Key: "this.word", Parallelism: 2}}}
}

// countWords is the job by hand: it takes lines from the partitions in a random
// order, and writes on every change or at random checkpoints.
func countWords(rng *rand.Rand, in [][]stream.Record, onChange bool) *world {
	w := &world{spec: wordSpec("on_change"), in: in, out: make([][]kgo.Record, 3)}
	counts, dirty, at := map[string]int{}, map[string]bool{}, make([]int, len(in))
	write := func(word string, ts int64) {
		value, _ := json.Marshal(struct {
			Word string `json:"word"`
			N    int    `json:"n"`
		}{word, counts[word]})
		w.emit([]byte(word), value, ts)
	}
	flush := func() {
		for word := range dirty {
			write(word, -1)
		}
		clear(dirty)
	}
	for p := next(rng, in, at); p >= 0; p = next(rng, in, at) {
		line := in[p][at[p]]
		at[p]++
		for _, word := range strings.Fields(strings.ToLower(string(line.Value))) {
			counts[word]++
			if dirty[word] = true; onChange {
				write(word, line.Timestamp)
			}
		}
		if !onChange && rng.IntN(5) == 0 {
			flush()
		}
	}
	if !onChange {
		flush()
		w.spec = wordSpec("on_checkpoint")
	}
	return w
}

// next picks a partition that is not at its end, -1 when all are.
func next(rng *rand.Rand, in [][]stream.Record, at []int) int {
	var open []int
	for p := range in {
		if at[p] < len(in[p]) {
			open = append(open, p)
		}
	}
	if len(open) == 0 {
		return -1
	}
	return open[rng.IntN(len(open))]
}

func random(seed int) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), 7)) }

func mustBeClean(t *testing.T, r *Result) {
	t.Helper()
	if !r.OK || r.Missing+r.Duplicated+r.Altered+r.OutOfOrder+r.Behind+r.Unread != 0 {
		var b strings.Builder
		_ = r.Render(&b)
		t.Fatalf("a clean history is not OK:\n%s", b.String())
	}
}

func describe(r *Result) string {
	var b strings.Builder
	_ = r.Render(&b)
	return b.String()
}

func TestCleanHistories(t *testing.T) {
	for seed := range 60 {
		rng := random(seed)
		w := countWords(rng, lines(rng, 1+rng.IntN(3), 5+rng.IntN(60)), seed%2 == 0)
		r := w.judge(t)
		mustBeClean(t, r)
		for _, s := range r.NotChecked {
			if strings.Contains(s, "between the first and the last") {
				t.Errorf("seed %d: %s", seed, s)
			}
		}
	}
}
