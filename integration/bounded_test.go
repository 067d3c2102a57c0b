package integration

import (
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkatest"
)

const bounded = common + `
parallelism: 6
checkpoint: { interval: 1m, min_pause: 0s, timeout: 1m }
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"], decode: raw, end: latest }
sinks:
  out: { type: kafka, connection: main, inputs: [in], topic: "${OUT}" }
`

// A bounded read ends by position, whatever stands at the end of a partition: a
// commit marker, an aborted transaction, nothing at all. There are more subtasks than
// partitions, and the only checkpoint is the final one. Afterwards the job is
// finished for good, and its checkpoints can be looked at without any broker.
func TestBoundedRead(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, out := b.Topic(t, 4), b.Topic(t, 3)
	produce(t, b, in, values(0, "a", "b")...)
	transaction(t, b, in, kgo.TryCommit, append(values(0, "c"), values(1, "d")...)...) // ends in a marker
	produce(t, b, in, values(1, "e")...)
	transaction(t, b, in, kgo.TryAbort, append(values(1, "never"), values(2, "never", "never")...)...) // an aborted tail; nothing else in 2, nothing at all in 3
	j := newJob(t, b, bounded, "IN="+in, "OUT="+out)
	want := []string{"a", "b", "c", "d", "e"}
	j.start().ends(0)
	j.finished()
	exactly(t, b, out, want...)

	produce(t, b, in, values(0, "beyond the end")...)
	j.start().ends(0)
	exactly(t, b, out, want...)
	free(t, b, out)

	j.set("KAFKA_BROKERS=127.0.0.1:1")
	if ids := j.checkpoints(); len(ids) < 2 {
		t.Errorf("checkpoints: %v", ids)
	}
	j.must("checkpoints inspect")
	j.must("checkpoints verify")
}

// A bounded read that was killed half way goes on to the same end, which may lie
// ahead (S02).
func TestBoundedReadGoesOn(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, out := b.Topic(t, 3), b.Topic(t, 3)
	produce(t, b, in, numbered(0, 300, 9, 3)...)
	j := newJob(t, b, common+often+`
parallelism: 2
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"], end: { offsets: { `+in+`: { 0: 200, 1: 200, 2: 200 } } } }
sinks:
  out: { type: kafka, connection: main, inputs: [in], topic: "${OUT}" }
`, "IN="+in, "OUT="+out)
	r := j.start().running()
	r.checkpoints(2)
	r.kill()
	produce(t, b, in, numbered(300, 700, 9, 3)...)
	j.start().ends(0)
	everyNumberOnce(t, committed(t, b, out), 600, 3)
	j.finished()
}

// The process dies between the publication of the final checkpoint and its commit:
// the next start commits, and ends at once (C04).
func TestFinalCheckpointKilled(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, out := b.Topic(t, 3), b.Topic(t, 1)
	produce(t, b, in, numbered(0, 300, 9, 3)...)
	j := newJob(t, b, bounded, "IN="+in, "OUT="+out)
	j.faulty("checkpoint.published:1:kill").killed()
	exactly(t, b, out)
	j.start().ends(0)
	everyNumberOnce(t, committed(t, b, out), 300, 3)
	j.finished()
}

// The broker dies while the final checkpoint is taken: the job does not end before
// everything is committed.
func TestFinalCheckpointIsRepeated(t *testing.T) {
	t.Parallel()
	b := victim(t)
	in, out := b.Topic(t, 3), b.Topic(t, 3)
	produce(t, b, in, numbered(0, 300, 9, 3)...)
	j := newJob(t, b, bounded, "IN="+in, "OUT="+out)
	r := j.faulty("kafka.flush.before:1:stop")
	r.stopped()
	b.Kill(t)
	r.signal(syscall.SIGCONT)
	for begin := time.Now(); time.Since(begin) < 3*time.Second; <-time.After(100 * time.Millisecond) {
		if !r.alive() {
			t.Fatalf("the job ended (%v) while its broker was down", r.cmd.ProcessState)
		}
	}
	b.Restart(t)
	r.ends(0)
	everyNumberOnce(t, committed(t, b, out), 300, 3)
	j.finished()
}
