package kafka

import (
	"testing"

	"etl/stream"
)

func TestRowsAreSeenOnce(t *testing.T) {
	eachBroker(t, func(t *testing.T, j *job) {
		j.start()
		for range 5 {
			j.write(30)
			j.checkpoint()
		}
		j.wantExactly(150)
	})
}

func TestEmptyEpochLeavesNothing(t *testing.T) {
	eachBroker(t, func(t *testing.T, j *job) {
		j.start()
		id, ps := j.prepare()
		j.finish(ps)
		if len(j.open) != 0 {
			t.Fatalf("%d committables of an epoch without rows", len(j.open))
		}
		j.publish(id)
		j.resolve(id, true)
		j.write(10)
		j.checkpoint()
		j.wantExactly(10)
	})
}

func TestCrashBeforePrepare(t *testing.T) {
	eachBroker(t, func(t *testing.T, j *job) {
		j.start()
		j.write(30)
		j.checkpoint()
		j.write(50) // open when the process dies
		j.crash()
		j.start()
		j.write(10)
		j.checkpoint()
		j.wantExactly(40)
	})
}

func TestCrashBeforePublish(t *testing.T) {
	eachBroker(t, func(t *testing.T, j *job) {
		j.start()
		j.write(30)
		j.checkpoint()
		j.write(50)
		_, ps := j.prepare()
		j.finish(ps) // prepared, and nobody will ever commit it
		j.crash()
		j.start()
		j.write(10)
		j.checkpoint()
		j.wantExactly(40)
	})
}

func TestCrashAfterPublish(t *testing.T) {
	eachBroker(t, func(t *testing.T, j *job) {
		j.start()
		j.write(30)
		id, ps := j.prepare()
		j.write(20) // the next epoch is under way
		j.finish(ps)
		j.publish(id)
		for range 3 { // and again while recovering: a crash loop on one checkpoint
			j.crash()
			j.start()
			j.write(5)
			j.write(5)
		}
		j.checkpoint()
		j.wantExactly(40)
	})
}

func TestCrashAfterCommit(t *testing.T) {
	eachBroker(t, func(t *testing.T, j *job) {
		j.start()
		id := j.publishes(30)
		j.must(j.commit(t.Context(), j.permit[id], j.open[0])) // one lane of two, not noted anywhere
		j.crash()
		j.start()
		j.write(10)
		j.checkpoint()
		j.wantExactly(40)
	})
}

// The transactions of an aborted checkpoint stay, and the next one commits them (I7).
func TestAbortedCheckpointIsListedByTheNext(t *testing.T) {
	eachBroker(t, func(t *testing.T, j *job) {
		j.start()
		for round := range 4 {
			j.write(20)
			aborted, ps := j.prepare()
			j.finish(ps)
			for _, w := range j.writers {
				j.must(w.Aborted(t.Context(), aborted))
			}
			j.write(10)
			id, ps := j.prepare()
			j.finish(ps)
			if len(j.open) != 4 {
				t.Fatalf("round %d: %d committables, want those of two checkpoints and two lanes", round, len(j.open))
			}
			j.publish(id)
			j.resolve(id, true)
		}
		j.wantExactly(120)
	})
}

func TestCrashWithAbortedCheckpointListed(t *testing.T) {
	eachBroker(t, func(t *testing.T, j *job) {
		j.start()
		j.write(20)
		_, ps := j.prepare()
		j.finish(ps)
		j.publishes(10)
		j.crash()
		j.start()
		j.write(10)
		j.checkpoint()
		j.wantExactly(40)
	})
}

// Without cooling, a recovery meets ids that were used again: the marker answers.
func TestMarkerResolvesWhenSlotsWereReused(t *testing.T) {
	eachBroker(t, func(t *testing.T, j *job) {
		j.cfg.Policy.TolerableFailures = -1 // four slots
		j.start()
		first := j.publishes(10)
		j.resolve(first, false) // committed and verified, never retired
		for range 8 {
			id := j.publishes(10)
			j.resolve(id, false)
		}
		if n := len(j.writers[0].slots.all); n > j.writers[0].cfg.Slots() {
			t.Errorf("%d slots", n)
		}
		j.write(10) // open when it dies
		j.crash()
		j.start() // the last checkpoint is not confirmed: asked again
		j.write(10)
		j.checkpoint()
		j.wantExactly(100)
	})
}

func TestUncommittedCounter(t *testing.T) {
	j := fakeJob(t)
	j.start()
	j.write(10)
	_, ps := j.prepare()
	j.finish(ps)
	n := int64(0)
	for _, w := range j.writers {
		n += w.env.Counters.Uncommitted.Load()
	}
	if n != 10 {
		t.Errorf("%d rows are uncommitted", n)
	}
	id := stream.NewCheckpointID(j.attempt.Number(), j.n)
	j.publish(id)
	j.resolve(id, false)
	for _, w := range j.writers {
		if n := w.env.Counters.Uncommitted.Load(); n != 0 {
			t.Errorf("%d rows are uncommitted after the commit", n)
		}
	}
}
