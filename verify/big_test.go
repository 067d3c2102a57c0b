package verify

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/stream"
)

// BenchmarkRecount counts updates of 100,000 users, half of which have a hundred
// times as many as the others: the time for one input and its row.
func BenchmarkRecount(b *testing.B) {
	const n = 300_000
	rng := random(1)
	w := &world{spec: wordSpec("on_change"), in: make([][]stream.Record, 3), out: make([][]kgo.Record, 3)}
	w.spec.Sources[0].Decode = "json"
	w.spec.Transforms = []Transform{{Name: "counts", Type: "aggregate", Inputs: []string{"lines"}, Key: []string{"this.user"}, Emit: "on_change", Parallelism: 2,
		Aggregates: []Aggregate{{Name: "n", Op: "count"}, {Name: "buy", Op: "count", Where: `this.b == "buy"`}}}}
	w.spec.Sinks[0].Key = "this.user"
	count, buys := map[int]int{}, map[int]int{}
	for i := range n {
		user, what := rng.IntN(1000), "buy"
		if i%2 == 0 {
			user = rng.IntN(100_000)
		}
		if i%3 == 0 {
			what = "fav"
		} else {
			buys[user]++
		}
		count[user]++
		p := rng.IntN(3)
		w.in[p] = append(w.in[p], stream.Record{Value: []byte(fmt.Sprintf(`{"user":%d,"b":%q}`, user, what)), Timestamp: int64(i / 20)})
		w.emit([]byte(fmt.Sprint(user)), []byte(fmt.Sprintf(`{"user":%d,"n":%d,"buy":%d}`, user, count[user], buys[user])), int64(i/20))
	}
	b.ReportAllocs()
	runs := 0
	for b.Loop() {
		runs++
		if r := w.judge(b); !r.OK {
			b.Fatal(describe(r))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n*runs), "ns/input")
}
