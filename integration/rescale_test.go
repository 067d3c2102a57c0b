package integration

import (
	"encoding/json"
	"fmt"
	"testing"

	"etl/internal/kafkatest"
)

// A job with keyed state is stopped, or killed, and started with another
// parallelism: 1, 3, 2. Keys keep their counts, transactions of subtasks that are
// gone are ended (K11), and what is refused is a number of subtasks beyond what the
// first checkpoint has fixed.
func TestRescale(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, out := b.Topic(t, 3), b.Topic(t, 2)
	j := newJob(t, b, "", "IN="+in, "OUT="+out)
	with := func(parallelism, max int) {
		j.write(common + often + fmt.Sprintf("parallelism: %d\nmax_parallelism: %d\n", parallelism, max) + `
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"] }
transforms:
  counts: { type: aggregate, inputs: [in], key: this.k, emit: on_change, aggregates: { c: count, n: { op: max, of: this.n } } }
sinks:
  out: { type: kafka, connection: main, inputs: [counts], topic: "${OUT}", key: this.k }
`)
	}
	stop := feed(t, b, in, 50, 3)
	for i, parallelism := range []int{1, 3, 2} {
		with(parallelism, 16)
		r := j.start().running()
		r.checkpoints(3)
		if i == 1 {
			r.kill()
			continue
		}
		j.must("stop")
		r.ends(0)
		if n := j.positions(); n != 3 {
			t.Errorf("with %d subtasks the positions of %d partitions are stored, want 3", parallelism, n) // S14
		}
	}
	with(2, 32)
	j.refusedToStart(b, out, 4, "restore.max_parallelism", "16", "32")
	with(4, 16)
	r := j.start().running()
	n := stop()
	j.caughtUp()
	j.must("stop")
	r.ends(0)
	j.finished()
	free(t, b, out)
	runningCounts(t, committed(t, b, out), n, 50)
}

// positions counts the positions that the newest checkpoint holds.
func (j *job) positions() (n int) {
	j.t.Helper()
	for _, t := range j.newest().Tasks {
		n += len(t.Splits)
	}
	return n
}

// metadata is the part of a checkpoint's that tests look at.
type metadata struct {
	ID           string
	Tasks        []struct{ Splits []json.RawMessage }
	Committables []struct {
		Sink, Checkpoint string
		Subtask          int
	}
	Confirmed map[string]string `json:"confirmed_through"`
}

// newest is what the newest checkpoint says of itself.
func (j *job) newest() (m metadata) {
	j.t.Helper()
	if err := json.Unmarshal(j.must("checkpoints inspect").Result, &m); err != nil {
		j.t.Fatal(err)
	}
	return m
}
