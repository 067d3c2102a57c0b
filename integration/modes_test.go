package integration

import (
	"slices"
	"strings"
	"testing"

	"etl/internal/kafkatest"
)

// The weaker modes keep what they promise, and say what they do not.
func TestAtLeastOnce(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, out := b.Topic(t, 3), b.Topic(t, 2)
	text := strings.Replace(copying, "checkpoint: { ", "checkpoint: { mode: at_least_once, ", 1)
	j := newJob(t, b, text+"parallelism: 2\n", "IN="+in, "OUT="+out)
	stop := feed(t, b, in, 6, 3)
	j.killedAhead(b, in, out)
	r := j.start().running()
	n := stop()
	j.caughtUp()
	j.must("stop")
	r.ends(0)
	got := j.finished() // at least once: nothing is missing; that rows are repeated is no fault
	if got.Duplicated == 0 {
		t.Error("nothing was repeated: the kill did not hit between the rows and their checkpoint")
	}
	if rows := slices.Compact(texts(t, b, out)); len(rows) != n {
		t.Errorf("%d different rows of %d records", len(rows), n)
	}
	if g := j.must("plan"); !strings.Contains(g.All, "at_least_once") {
		t.Errorf("the plan does not say so: %s", g.All)
	}
}

// killedAhead kills the job when out shows rows of which no checkpoint knows: its third one is
// never published, and reading goes on beside it.
func (j *job) killedAhead(b *kafkatest.Broker, in, out string) {
	j.t.Helper()
	r := j.faulty("log.append.checkpoint.before:4:delay=1h") // the first one is where a fresh job begins
	r.checkpoints(2)
	_, end := bounds(j.t, b, in)
	read := int64(0)
	for _, n := range end {
		read += n
	}
	eventually(j.t, "a row of a record that came behind the second checkpoint", func() bool { return int64(len(texts(j.t, b, out))) > read })
	r.kill()
}

// One sink that delivers at least once, beside one that is exact: each is what it is.
func TestMixedDelivery(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, exact, loose := b.Topic(t, 3), b.Topic(t, 2), b.Topic(t, 2)
	j := newJob(t, b, copying+`  loose: { type: kafka, connection: main, inputs: [in], topic: "${LOOSE}", delivery: at_least_once }
parallelism: 2
`, "IN="+in, "OUT="+exact, "LOOSE="+loose)
	stop := feed(t, b, in, 6, 3)
	j.killedAhead(b, in, loose)
	r := j.start().running()
	n := stop()
	j.caughtUp()
	j.must("stop")
	r.ends(0)
	j.finished()
	everyNumberOnce(t, committed(t, b, exact), n, 3)
	if rows := texts(t, b, loose); len(rows) <= n || len(slices.Compact(rows)) != n {
		t.Errorf("%d rows of %d records at least once", len(rows), n)
	}
}

// mode: none takes no checkpoints: rows are there at once, and a restart begins
// where start says.
func TestNoCheckpoints(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, out := b.Topic(t, 1), b.Topic(t, 1)
	text := strings.Replace(copying, often, "checkpoint: { mode: none }\n", 1)
	j := newJob(t, b, text, "IN="+in, "OUT="+out)
	produce(t, b, in, values(0, "a", "b")...)
	r := j.start().running()
	eventually(t, "the rows are there", func() bool { return len(texts(t, b, out)) == 2 })
	if ids := j.checkpoints(); len(ids) > 0 {
		t.Errorf("there are checkpoints: %v", ids)
	}
	r.kill()
	r = j.start().running()
	eventually(t, "the rows are there again", func() bool { return len(texts(t, b, out)) == 4 })
	r.signal(stopSignal)
	r.ends(0)
	exactly(t, b, out, "a", "a", "b", "b")
	if g := j.must("plan"); !strings.Contains(g.All, `"no_guarantee"`) && !strings.Contains(g.All, `"at_most_once"`) {
		t.Errorf("the plan promises more: %s", g.All)
	}
}
