package integration

import (
	"fmt"
	"testing"

	"etl/internal/kafkatest"
)

// A start at latest reads what comes after it, from then on: what is written while
// the job is down is read, also in a partition that was empty before and at every
// checkpoint since (S12). Group offsets decide nothing, whatever they say (K35, S15).
func TestStartLatest(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, out := b.Topic(t, 3), b.Topic(t, 1)
	produce(t, b, in, append(values(0, "old", "old"), values(1, "old")...)...)
	j := newJob(t, b, common+often+`
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"], decode: raw, start: latest, consumer_group: "${JOB}" }
sinks:
  out: { type: kafka, connection: main, inputs: [in], topic: "${OUT}" }
`, "IN="+in, "OUT="+out)
	began := []string{"--from", in + "/0=2," + in + "/1=1," + in + "/2=0"}

	r := j.start().running()
	produce(t, b, in, values(0, "n0")...)
	r.checkpoints(2)
	j.caughtUp(began...)
	r.kill()
	produce(t, b, in, append(values(1, "n1"), values(2, "n2", "n3")...)...)
	commitOffsets(t, b, j.name, in, 3)

	r = j.start().running()
	produce(t, b, in, values(2, "n4")...)
	j.caughtUp(began...)
	j.must("stop")
	r.ends(0)
	exactly(t, b, out, "n0", "n1", "n2", "n3", "n4")
	j.finished(began...)
	if got, want := groupOffsets(t, b, j.name, in), "[3 2 3]"; fmt.Sprint(got) != want {
		t.Errorf("the group is reported to be at %v, want %s", got, want)
	}
}
