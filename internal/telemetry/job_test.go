package telemetry_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"etl/pipeline"
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

// TestCheckpointedOffset: it is where the last checkpoint stands, not how far the job
// has read, and a restarted process knows it before it takes a checkpoint.
func TestCheckpointedOffset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.every = 10 * time.Second
		stop := l.start()
		l.trickle(3)
		l.is(0, "etl_source_checkpointed_offset", `topic="lines"`, `partition="0"`)
		time.Sleep(11 * time.Second)
		l.trickle(2)
		l.is(3, "etl_source_checkpointed_offset", `component="lines"`)
		stop()
		l.is(5, "etl_source_checkpointed_offset")
		again := newLab(t)
		again.store, again.log = l.store, l.log
		stop = again.start()
		again.is(5, "etl_source_checkpointed_offset")
		stop()
	})
}

// TestGroupCommitFailures: positions that a consumer group does not take are counted,
// and nothing else comes of it.
func TestGroupCommitFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.every, l.log.unreported = 10*time.Second, errors.New("the group is gone")
		stop := l.start()
		time.Sleep(31 * time.Second)
		l.is(3, "etl_checkpoint_completed_total")
		l.is(3, "etl_source_group_commit_failures_total", `component="lines"`)
		l.log.mu.Lock()
		l.log.unreported = nil
		l.log.mu.Unlock()
		stop()
		l.is(3, "etl_source_group_commit_failures_total", `component="lines"`)
	})
}

// TestRejects: records that could not be processed are counted by what became of them
// and why.
func TestRejects(t *testing.T) {
	for policy, records := range map[pipeline.OnError][]string{pipeline.Skip: {"a", "bad", "b", "bad"}, pipeline.DeadLetter: {"bad", "a"}} {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t)
			l.onError = policy
			stop := l.start()
			action, n := `action="`+string(policy)+`"`, float64(0)
			l.is(0, "etl_component_errors_total", action, `code="record.rejected"`)
			for _, r := range records {
				if l.log.add(r); r == "bad" {
					n++
				}
			}
			synctest.Wait()
			l.is(n, "etl_component_errors_total", `component="counts"`, action, `code="lab.key"`)
			l.is(n, "etl_component_errors_total")
			letters := map[bool]float64{policy == pipeline.DeadLetter: n}[true]
			l.is(letters, "etl_dead_letter_records_total", `component="counts"`, `code="lab.key"`)
			l.is(letters, "etl_dead_letter_records_total")
			stop()
		})
	}
}

// TestSinkWrites: each batch counts once, with its records and its time.
func TestSinkWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.out.writes = 3 * time.Second
		stop := l.start()
		l.log.add("a", "a", "a") // coalesced on their way
		synctest.Wait()
		l.log.add("a")
		stop()
		l.is(2, "etl_sink_write_seconds_count", `component="out"`)
		l.is(6, "etl_sink_write_seconds_sum", `component="out"`)
		l.is(4, "etl_sink_batch_records_sum", `component="out"`)
		l.is(1, "etl_sink_batch_records_bucket", `component="out"`, `le="1"`)
	})
}

// TestStateAccess: the first of 1024 look-ups of a subtask is timed, and a change in it.
func TestStateAccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		stop := l.start()
		for _, n := range []int{1, 1023} {
			l.trickle(n)
			l.is(1, "etl_state_read_seconds_count", `component="counts"`)
			l.is(1, "etl_state_write_seconds_count", `component="counts"`)
		}
		l.trickle(1)
		l.is(2, "etl_state_read_seconds_count", `component="counts"`)
		l.is(2, "etl_state_write_seconds_count", `component="counts"`)
		stop()
	})
}

// TestTransactions follows one transaction from its first row to its commit, and one
// that a crash leaves to the next process.
func TestTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.every, l.out.finish, l.out.commits = 10*time.Second, 2*time.Second, 4*time.Second
		check := func(in *lab, state string, age float64) {
			t.Helper()
			for _, s := range []string{"open", "flushed", "prepared"} {
				in.is(map[bool]float64{s == state: 1}[true], "etl_sink_transactions", `component="out"`, `state="`+s+`"`)
			}
			in.is(age, "etl_sink_oldest_transaction_age_seconds", `component="out"`)
		}
		stop := l.start()
		time.Sleep(time.Second)
		check(l, "", 0)
		for range 2 {
			l.log.add("a")
			time.Sleep(4 * time.Second)
		}
		check(l, "open", 8)
		time.Sleep(2 * time.Second)
		check(l, "flushed", 10)
		time.Sleep(2 * time.Second) // second 13
		check(l, "prepared", 12)
		time.Sleep(4 * time.Second)
		check(l, "", 0)
		stop()
		check(l, "", 0)

		l.start()
		l.log.add("a")
		time.Sleep(13 * time.Second)
		check(l, "prepared", 13)
		l.crash()
		again := newLab(t)
		again.store, again.log, again.out = l.store, l.log, l.out
		time.Sleep(time.Minute)
		stop = again.start()
		check(again, "prepared", 60+3) // it has been since its checkpoint was triggered
		time.Sleep(5 * time.Second)
		check(again, "", 0)
		stop()
	})
}

// TestTransactionOfNothing: rows of which none is left to commit are no transaction for
// ever.
func TestTransactionOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.every, l.out.hollow = 10*time.Second, true
		stop := l.start()
		l.log.add("a")
		time.Sleep(9 * time.Second)
		l.is(1, "etl_sink_transactions", `component="out"`)
		time.Sleep(2 * time.Second)
		l.is(0, "etl_sink_transactions", `component="out"`)
		stop()
	})
}

// TestLog: rows that wait in checkpoint storage are counted until they are delivered,
// also by a process that finds them there.
func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.every, l.out.commits, l.out.logs = 10*time.Second, time.Minute, 1000
		l.start()
		for range 3 { // the first is being delivered, the others wait for it
			l.log.add("a")
			time.Sleep(12 * time.Second)
		}
		l.is(3000, "etl_sink_wal_size_bytes", `component="out"`)
		l.is(36, "etl_sink_wal_oldest_age_seconds", `component="out"`)
		l.crash()
		again := newLab(t)
		again.store, again.log, again.out = l.store, l.log, l.out
		stop := again.start()
		again.is(3000, "etl_sink_wal_size_bytes", `component="out"`)
		again.is(26, "etl_sink_wal_oldest_age_seconds") // since the first checkpoint was triggered
		time.Sleep(3*time.Minute + time.Second)
		again.is(0, "etl_sink_wal_size_bytes")
		again.is(0, "etl_sink_wal_oldest_age_seconds")
		stop()
	})
}
