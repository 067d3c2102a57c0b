package integration

import (
	"fmt"
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
	n := 0
	r := stoppedOver(j, "quick", func() {
		produce(t, b, in, numbered(n, n+60, 6, 3)...)
		n += 60
	})
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

// stoppedOver runs the job, with more and more input, until it stands still over a checkpoint
// that is published, and has rows of a sink to commit.
func stoppedOver(j *job, sink string, more func()) *run {
	j.t.Helper()
	for try := range 5 {
		r := j.faulty(fmt.Sprintf("checkpoint.published:%d:stop", 3<<try)) // a busy machine may have read nothing by then
		for r.state() != 'T' {
			if !r.alive() {
				j.t.Fatal("the job ended")
			}
			more()
		}
		m := j.newest()
		for _, c := range m.Committables {
			if c.Sink == sink && c.Checkpoint == m.ID {
				return r
			}
		}
		r.kill()
	}
	j.t.Fatalf("no checkpoint has rows of %s", sink)
	return nil
}
