package integration

import (
	"testing"

	"etl/internal/kafkatest"
)

// Partitions that are added, while the job runs and while it is down, are read from
// their beginning although the start is latest: what is written before they are
// noticed is not lost (S11).
func TestPartitionsAdded(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, out := b.Topic(t, 1), b.Topic(t, 2)
	produce(t, b, in, values(0, "old")...)
	j := newJob(t, b, common+often+`
parallelism: 2
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"], decode: raw, start: latest }
sinks:
  out: { type: kafka, connection: main, inputs: [in], topic: "${OUT}" }
`, "IN="+in, "OUT="+out)
	began := []string{"--from", in + "/0=1"}
	r := j.start().running()
	grow(t, b, in, 2)
	produce(t, b, in, append(values(0, "a"), values(1, "b", "c")...)...)
	j.caughtUp(began...)
	r.kill()

	grow(t, b, in, 4)
	produce(t, b, in, append(values(2, "d"), values(3, "e")...)...)
	r = j.start().running()
	produce(t, b, in, values(3, "f")...)
	j.caughtUp(began...)
	j.must("stop")
	r.ends(0)
	exactly(t, b, out, "a", "b", "c", "d", "e", "f")
	j.finished(began...)
}
