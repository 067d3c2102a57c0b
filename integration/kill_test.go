package integration

import (
	"encoding/json"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkatest"
)

// counting counts by key, by another key, and copies.
const counting = common + often + `
parallelism: 2
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"] }
transforms:
  counts: { type: aggregate, inputs: [in], key: this.k, emit: on_change, aggregates: { c: count, last: { op: max, of: this.n } } }
  totals: { type: aggregate, inputs: [in], key: this.n % 5, emit: on_change, aggregates: { sum: { op: sum, of: this.n } } }
sinks:
  totalled: { type: kafka, connection: main, inputs: [totals], topic: "${TOTALS}" }
  counted: { type: kafka, connection: main, inputs: [counts], topic: "${COUNTS}", key: this.key }
  copied: { type: kafka, connection: main, inputs: [in], topic: "${COPY}" }
`

// Exactly once: the process is killed after a checkpoint was published and before
// its transactions are committed, again while it commits, and again while it
// recovers. Every record is in every output once.
func TestKilled(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, counts, totals, copies := b.Topic(t, 3), b.Topic(t, 3), b.Topic(t, 2), b.Topic(t, 3)
	j := newJob(t, b, counting, "IN="+in, "COUNTS="+counts, "TOTALS="+totals, "COPY="+copies)
	stop := feed(t, b, in, 7, 3)

	j.faulty("checkpoint.published:4:kill").killed()
	j.faulty("recover.committed:1:kill").killed()
	j.faulty("kafka.endtxn.sent:6:kill").killed()
	r := j.start().running()
	r.checkpoints(3)
	n := stop()
	j.caughtUp()
	j.must("stop")
	r.ends(0)
	j.finished()

	free(t, b, counts)
	free(t, b, copies)
	everyNumberOnce(t, committed(t, b, copies), n, 3)
	runningCounts(t, committed(t, b, counts), n, 7)
}

// row is a value of these tests.
type row struct {
	K string `json:"k"`
	N int    `json:"n"`
	C int    `json:"c"`
}

func parse(t testing.TB, r *kgo.Record) (v row) {
	t.Helper()
	if err := json.Unmarshal(r.Value, &v); err != nil {
		t.Fatalf("%s: %v", r.Value, err)
	}
	return v
}

// everyNumberOnce checks that the numbers 0..n-1 are there once each, and that
// those of one partition of the input are in order in each partition.
func everyNumberOnce(t testing.TB, rows map[int32][]*kgo.Record, n, partitions int) {
	t.Helper()
	times := make([]int, n)
	for p, recs := range rows {
		last := map[int]int{}
		for _, r := range recs {
			v := parse(t, r)
			if v.N < 0 || v.N >= n {
				t.Fatalf("%s was never written to the input", r.Value)
			}
			times[v.N]++
			if before, ok := last[v.N%partitions]; ok && before >= v.N {
				t.Errorf("partition %d offset %d: %d comes after %d", p, r.Offset, v.N, before)
			}
			last[v.N%partitions] = v.N
		}
	}
	for i, k := range times {
		if k != 1 {
			t.Errorf("record %d is there %d times", i, k)
		}
	}
}

// runningCounts checks that each key's counts go 1, 2, 3, ... up to how often it
// was written.
func runningCounts(t testing.TB, rows map[int32][]*kgo.Record, n, keys int) {
	t.Helper()
	at := map[string]int{}
	for p, recs := range rows {
		for _, r := range recs {
			v := parse(t, r)
			if at[v.K]++; v.C != at[v.K] {
				t.Fatalf("partition %d offset %d: count %d of %s, want %d", p, r.Offset, v.C, v.K, at[v.K])
			}
		}
	}
	for k := range keys {
		key := string(numbered(k, k+1, keys, 1)[0].Key)
		if want := (n - k + keys - 1) / keys; at[key] != want {
			t.Errorf("%s is counted to %d, want %d", key, at[key], want)
		}
	}
}
