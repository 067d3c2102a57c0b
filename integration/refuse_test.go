package integration

import (
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"etl/internal/kafkatest"
)

// prepared is a job that has copied "a" and "b" and is down.
func prepared(t *testing.T, b *kafkatest.Broker) (j *job, in, out string) {
	t.Helper()
	in, out = b.Topic(t, 1), b.Topic(t, 1)
	j = newJob(t, b, copying, "IN="+in, "OUT="+out)
	produce(t, b, in, values(0, "a", "b")...)
	r := j.start().running()
	j.caughtUp()
	j.must("stop")
	r.ends(0)
	return j, in, out
}

// refusedToStart expects that a start is refused with the facts, and that nothing
// has changed by it: neither checkpoints nor output.
func (j *job) refusedToStart(b *kafkatest.Broker, out string, exit int, code string, facts ...string) {
	j.t.Helper()
	before, rows := j.checkpoints(), texts(j.t, b, out)
	_, end := bounds(j.t, b, out)
	j.refused(j.etl("run"), exit, code, facts...)
	if after := j.checkpoints(); !slices.Equal(before, after) {
		j.t.Errorf("checkpoints %v became %v", before, after)
	}
	if _, after := bounds(j.t, b, out); len(end) != len(after) || end[0] != after[0] {
		j.t.Errorf("the output ended at %v and ends at %v", end, after)
	}
	exactly(j.t, b, out, rows...)
}

// A topic that was deleted and made anew is another topic, whatever its name is and
// however many records it holds. Fewer partitions are another topic, too: a topic
// never shrinks.
func TestRecreatedTopic(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	j, in, out := prepared(t, b)
	drop(t, b, in)
	j.refusedToStart(b, out, 3, "kafka.topic_missing", in)
	b.CreateTopic(t, in, 1)
	produce(t, b, in, values(0, "x", "y", "z")...)
	j.refusedToStart(b, out, 4, "source.topic_recreated", in, "made again", "offset 2")
}

// Records that were deleted before they were read are a loss with a range. It is
// found at the start, and also under a running job.
func TestExpiredInput(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	j, in, out := prepared(t, b)
	produce(t, b, in, values(0, "c", "d", "e")...)
	deleteBefore(t, b, in, 4)
	j.refusedToStart(b, out, 4, "source.position_expired", in+"/0@2", "[2,4)")
	free(t, b, out)

	k, in, _ := prepared(t, b)
	r := k.start().running()
	r.checkpoints(1)
	r.signal(syscall.SIGSTOP)
	for range 10 { // the first answers the fetch that is under way, if there is one
		produce(t, b, in, values(0, "c")...)
	}
	deleteBefore(t, b, in, 12)
	r.signal(syscall.SIGCONT)
	r.ends(5)
	if l := r.message("the job failed", 1); l.str("cause") != "source.out_of_range" || !regexp.MustCompile(`\[([2-9]|1[01]),12\)`).MatchString(l.text) {
		t.Errorf("it failed with %s", l.text)
	}
}

// A graph that would lose stored state is refused, with both sides named, and the
// graph as it was goes on exactly (C17). So does one whose component was renamed and
// kept its uid, or whose state may be dropped because somebody said so.
func TestRenamedComponent(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, out := b.Topic(t, 2), b.Topic(t, 1)
	text := common + often + `
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"] }
transforms:
  sums: { type: aggregate, inputs: [in], key: this.k, emit: on_change, aggregates: { c: count } }
sinks:
  out: { type: kafka, connection: main, inputs: [sums], topic: "${OUT}", key: this.k }
`
	j := newJob(t, b, text, "IN="+in, "OUT="+out)
	n := 0
	more := func() {
		t.Helper()
		produce(t, b, in, numbered(n, n+20, 4, 2)...)
		n += 20
		r := j.start().running()
		j.caughtUp()
		j.must("stop")
		r.ends(0)
	}
	more()

	renamed := strings.ReplaceAll(text, "sums", "totals")
	j.write(renamed)
	j.refusedToStart(b, out, 4, "restore.incompatible", "sums")
	j.refused(j.etl("plan"), 4, "restore.incompatible", "sums")
	j.write(text)
	more()
	j.write(strings.Replace(renamed, "totals: { ", "totals: { uid: sums, ", 1))
	more()
	j.finished()
	runningCounts(t, committed(t, b, out), n, 4)

	j.write(renamed)
	j.must("plan", "--allow-dropped-state", "sums")
}
