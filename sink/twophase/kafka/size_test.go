package kafka

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"etl/sink/kafkatxn"
)

// What the writer lets through, kgo takes; what it refuses, kgo would have refused too,
// but for the last byte or two.
func TestSizeIsKgos(t *testing.T) {
	const limit = 2000
	j := fakeJob(t)
	cl, err := j.cfg.Conn.NewClient(kgo.ProducerBatchMaxBytes(limit), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	over, under := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		r := &kgo.Record{Topic: "out"}
		if n := rapid.IntRange(-1, 200).Draw(rt, "key"); n >= 0 {
			r.Key = make([]byte, n)
		}
		for range rapid.IntRange(0, 4).Draw(rt, "headers") {
			h := kgo.RecordHeader{Key: string(make([]byte, rapid.IntRange(0, 130).Draw(rt, "hkey")))}
			if n := rapid.IntRange(-1, 130).Draw(rt, "hval"); n >= 0 {
				h.Value = make([]byte, n)
			}
			r.Headers = append(r.Headers, h)
		}
		free := max(0, limit-kafkatxn.AloneSize(r))
		r.Value = make([]byte, max(0, free+rapid.IntRange(-8, 8).Draw(rt, "slack")))
		fits := kafkatxn.AloneSize(r) <= limit
		surely := kafkatxn.AloneSize(r) > limit+4
		err := cl.ProduceSync(t.Context(), r).FirstErr()
		if fits && err != nil || surely && !errors.Is(err, kerr.MessageTooLarge) {
			rt.Fatalf("size %d of %d: kgo says %v", kafkatxn.AloneSize(r), limit, err)
		}
		if fits {
			under++
		} else {
			over++
		}
	})
	if over == 0 || under == 0 {
		t.Errorf("%d over and %d under the limit: the boundary was not tried", over, under)
	}
}
