package integration

import (
	"syscall"
	"testing"
)

// The broker is killed under a running job and comes back: the job heals itself, in
// its process, and stays exact. The first kill hits at any time, the second while
// transactions are being committed.
func TestBrokerKilled(t *testing.T) {
	t.Parallel()
	b := victim(t)
	in, counts, copies := b.Topic(t, 3), b.Topic(t, 3), b.Topic(t, 3)
	j := newJob(t, b, counting, "IN="+in, "COUNTS="+counts, "TOTALS="+b.Topic(t, 2), "COPY="+copies)
	produce(t, b, in, numbered(0, 500, 7, 3)...)
	r := j.faulty("kafka.endtxn.sent:30:stop").running()
	r.checkpoints(1)
	b.Kill(t)
	b.Restart(t)
	n := 500
	for r.state() != 'T' { // every checkpoint needs rows, or there is nothing to commit
		if !r.alive() {
			t.Fatalf("the process ended: %v", r.cmd.ProcessState)
		}
		produce(t, b, in, numbered(n, n+50, 7, 3)...)
		n += 50
	}
	b.Kill(t)
	r.signal(syscall.SIGCONT)
	b.Restart(t)
	produce(t, b, in, numbered(n, n+50, 7, 3)...)
	j.caughtUp()
	j.must("stop")
	r.ends(0)
	j.finished()
	everyNumberOnce(t, committed(t, b, copies), n+50, 3)
	runningCounts(t, committed(t, b, counts), n+50, 7)
}
