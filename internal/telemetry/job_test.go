package telemetry_test

import (
	"testing"
	"testing/synctest"
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
		for range 20 {
			l.log.add("a") // all of them go to one subtask
			synctest.Wait()
		}
		l.is(1, "etl_component_queue_fill_ratio", `component="counts"`)
		close(l.out.stuck)
		synctest.Wait()
		l.is(0, "etl_component_queue_fill_ratio")
		stop()
	})
}
