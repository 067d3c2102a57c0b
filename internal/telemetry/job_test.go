package telemetry_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// The tests in this file see metrics move in jobs that run, in virtual time: one that is
// registered and never fed looks the same in the golden file.

// TestQueueFills: a queue is full when its task does not empty it, and empty when it has.
func TestQueueFills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.out.stuck = make(chan struct{})
		stop := l.start()
		l.is(0, "etl_component_queue_fill_ratio")
		l.trickle(20)
		l.is(1, "etl_component_queue_fill_ratio", `component="counts"`)
		close(l.out.stuck)
		synctest.Wait()
		l.is(0, "etl_component_queue_fill_ratio")
		stop()
	})
}

// TestStartDelay: barriers wait behind batches, and a source that waits for room takes
// them late. The first barrier of a subtask counts, whenever the last one comes.
func TestStartDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.every, l.out.writes = 10*time.Second, 3*time.Second
		stop := l.start()
		time.Sleep(9 * time.Second)
		l.trickle(5) // four have room, the source waits with the last until second 12
		time.Sleep(15500 * time.Millisecond)
		l.is(2, "etl_checkpoint_start_delay_seconds_sum", `component="lines"`)
		// One subtask works on the four until second 21, the other is idle.
		l.is(11, "etl_checkpoint_start_delay_seconds_sum", `component="counts"`)
		l.is(2, "etl_checkpoint_start_delay_seconds_count", `component="counts"`)
		stop()
	})
}
