package integration

import (
	"syscall"
	"testing"

	"etl/internal/kafkatest"
)

// Several sinks of one graph, on two clusters: one cluster hangs while transactions
// are committed. The other sink's rows of that checkpoint become visible all the
// same: lanes do not wait for each other. When the cluster is back, all is exact,
// in one and the same process.
func TestSlowSink(t *testing.T) {
	t.Parallel()
	b, slow := kafkatest.Shared(t), victim(t)
	in, quick, late := b.Topic(t, 3), b.Topic(t, 2), slow.Topic(t, 2)
	j := newJob(t, b, common+"  other: { type: kafka, seed_brokers: [\"${OTHER}\"] }\n"+often+`
parallelism: 2
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"], decode: raw }
sinks:
  quick: { type: kafka, connection: main, inputs: [in], topic: "${QUICK}" }
  late: { type: kafka, connection: other, inputs: [in], topic: "${LATE}" }
`, "OTHER="+slow.Addr(), "IN="+in, "QUICK="+quick, "LATE="+late)
	r := j.faulty("checkpoint.published:3:stop")
	n := 0
	for r.state() != 'T' {
		if !r.alive() {
			t.Fatal("the job ended")
		}
		produce(t, b, in, numbered(n, n+60, 6, 3)...)
		n += 60
	}
	hidden := len(texts(t, slow, late))
	before := len(texts(t, b, quick))
	slow.Pause(t)
	r.signal(syscall.SIGCONT)
	eventually(t, "the quick sink commits", func() bool { return len(texts(t, b, quick)) > before })
	slow.Unpause(t)
	t.Logf("%d rows of the slow sink were visible, %d of the quick one before", hidden, before)
	j.caughtUp()
	j.must("stop")
	r.ends(0)
	j.finished()
	everyNumberOnce(t, committed(t, b, quick), n, 3)
	everyNumberOnce(t, committed(t, slow, late), n, 3)
}
