package integration

import (
	"fmt"
	"testing"

	"etl/internal/kafkatest"
)

// A job belongs to one process. A second one is refused and told who holds it; with
// --take-over it fences the first, which ends with exit code 6 and leaves nothing
// behind. A process that was killed holds nothing.
func TestOwners(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	j, first, out, stop := loaded(t, b, "")
	j.refused(j.etl("run"), 6, "job.held", fmt.Sprint("pid ", first.cmd.Process.Pid))
	first.checkpoints(3) // it is not disturbed

	second := j.start("--take-over").running()
	first.ends(6)
	second.checkpoints(2)
	if second.count("restarting from the last checkpoint") > 0 {
		t.Error("the successor was disturbed")
	}
	second.kill()
	goesOn(t, b, j, out, stop)
}

// Two jobs of the same shape, with the same prefix and the same names of components,
// side by side: one is killed and starts again, the other one does not notice (K08).
func TestSideBySide(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	j, r, out, stop := loaded(t, b, "")
	k, s, other, stopOther := loaded(t, b, "")
	s.kill()
	s = k.start().running()
	s.checkpoints(2)
	before := r.count("checkpoint")
	r.checkpoints(before + 2)
	if r.count("restarting from the last checkpoint")+r.count("checkpoint failed") > 0 {
		t.Error("a job was disturbed by another one")
	}
	for _, x := range []struct {
		j    *job
		r    *run
		out  string
		stop func() int
	}{{j, r, out, stop}, {k, s, other, stopOther}} {
		n := x.stop()
		x.j.caughtUp()
		x.j.must("stop")
		x.r.ends(0)
		x.j.finished()
		everyNumberOnce(t, committed(t, b, x.out), n, 3)
	}
}
