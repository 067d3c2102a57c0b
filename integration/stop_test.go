package integration

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"etl/internal/kafkatest"
)

// loaded is a job that copies what a generator writes all the time.
func loaded(t *testing.T, b *kafkatest.Broker, plan string) (j *job, r *run, out string, stop func() int) {
	t.Helper()
	in, out := b.Topic(t, 3), b.Topic(t, 2)
	j = newJob(t, b, copying+"parallelism: 2\n", "IN="+in, "OUT="+out)
	stop = feed(t, b, in, 6, 3)
	r = j.faulty(plan).running()
	r.checkpoints(2)
	return j, r, out, stop
}

// SIGTERM and etl stop, under load: a final checkpoint is taken and committed, no
// transaction is left open, and the next run goes on without a gap or a repetition
// (C07, C25).
func TestStop(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	j, r, out, stop := loaded(t, b, "")
	r.signal(stopSignal)
	r.ends(0)
	free(t, b, out)
	if got := j.recount(); got.Uncommitted != 0 {
		t.Errorf("after SIGTERM: %+v", got)
	}
	r = j.start().running()
	r.checkpoints(1)
	j.must("stop")
	r.ends(0)
	free(t, b, out)
	r = j.start().running()
	n := stop()
	j.caughtUp()
	j.must("stop")
	r.ends(0)
	j.finished()
	everyNumberOnce(t, committed(t, b, out), n, 3)
}

// A second signal ends at once, with an exit code of its own; the transactions that
// are open are ended with it, so that readers are not held up until they time out.
// What is published already is not ended: the next run commits it.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	var slow []string // from the third checkpoint on: the second signal comes before the drain is over
	for pass := range 6 {
		slow = append(slow, fmt.Sprintf("task.finish.before:%d:delay=10s", 5+pass))
	}
	j, r, out, stop := loaded(t, b, strings.Join(slow, ","))
	r.signal(syscall.SIGINT)
	r.message("draining", 1)
	r.signal(syscall.SIGINT)
	r.ends(130)
	free(t, b, out)
	goesOn(t, b, j, out, stop)
}

// cancel ends the job without a checkpoint, and its open transactions.
func TestCancel(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	j, r, out, stop := loaded(t, b, "")
	j.must("cancel")
	r.ends(0)
	free(t, b, out)
	goesOn(t, b, j, out, stop)
}

// goesOn runs a job that ended somehow to the end of its input.
func goesOn(t *testing.T, b *kafkatest.Broker, j *job, out string, stop func() int) {
	t.Helper()
	r := j.start().running()
	n := stop()
	j.caughtUp()
	j.must("stop")
	r.ends(0)
	j.finished()
	everyNumberOnce(t, committed(t, b, out), n, 3)
}
