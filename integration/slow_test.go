package integration

import (
	"fmt"
	"testing"
)

// A slow network, and one record for each checkpoint: a transaction's first record
// is in it, however late its partition was enlisted (K16, K17). In between the
// network is cut off, also while transactions are committed (K19, K23).
func TestOneRecordPerCheckpoint(t *testing.T) {
	t.Parallel()
	b := victim(t)
	in, out := b.Topic(t, 1), b.Topic(t, 1)
	j := newJob(t, b, copying, "IN="+in, "OUT="+out)
	j.set("KAFKA_BROKERS=" + b.Proxy().Addr())
	for _, stream := range []string{"upstream", "downstream"} {
		if err := b.Proxy().Add("latency", stream, map[string]any{"latency": 30, "jitter": 25}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(b.Proxy().Reset)
	r := j.start().running()
	var want []string
	for n := range 20 {
		v := fmt.Sprint("r", n)
		produce(t, b, in, values(0, v)...)
		want = append(want, v)
		if n%7 == 6 {
			b.Proxy().Down()
			if err := b.Proxy().Up(); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, v+" is visible", func() bool { return len(texts(t, b, out)) == n+1 })
	}
	b.Proxy().Reset()
	j.must("stop")
	r.ends(0)
	exactly(t, b, out, want...)
	j.finished()
}
