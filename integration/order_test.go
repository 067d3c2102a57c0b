package integration

import (
	"testing"

	"etl/internal/kafkatest"
)

// Order within a partition holds across checkpoints, aborted ones, and kills: an
// epoch's rows never overtake those of the one before, although each is written by
// a producer of its own. Every acknowledgement of a marker is late here, so that the
// next epoch's rows would come first if they could, and every third checkpoint is
// aborted after all sinks have prepared.
func TestOrder(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, out := b.Topic(t, 3), b.Topic(t, 2)
	j := newJob(t, b, copying+"parallelism: 2\n", "IN="+in, "OUT="+out)
	stop := feed(t, b, in, 5, 3)
	for range 2 {
		r := j.faulty("checkpoint.append.declined:every3:error,kafka.flush.before:every2:delay=120ms,kafka.marker.before:every3:delay=80ms").running()
		r.checkpoints(4)
		r.message("checkpoint failed", 1)
		r.kill()
	}
	r := j.start().running()
	n := stop()
	j.caughtUp()
	r.signal(stopSignal)
	r.ends(0)
	j.finished()
	everyNumberOnce(t, committed(t, b, out), n, 3)
}
