package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"etl/internal/kafkatest"
	"etl/internal/pgtest"
	"etl/stream"
)

// A database that goes back in time, to a backup or to a standby that lacked the last
// commits, loses rows that were committed and confirmed. The next start says so, whether the
// job was stopped or killed, instead of going on over the hole; what is written again is
// for somebody to decide, and once decided holds for later starts, too.
func TestPostgresForgotten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, strategy string }{"prepared": {intoTables, "prepared"}, "staged": {intoTables, "staged"}, "wal": {throughLog, ""}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, d := kafkatest.Shared(t), newDatabase(t, pgtest.Shared(t))
			in := b.Topic(t, 3)
			d.exec(tables)
			many := strings.Replace(c.text, "checkpoint: { ", "checkpoint: { retain: 1000, ", 1) // what is no longer listed, nobody misses
			j := newJob(t, b, many, "IN="+in, "OUT="+b.Topic(t, 3), "STRATEGY="+c.strategy, "DSN="+d.admin)
			j.must("sink init", "--apply", "--role", d.role)
			j.set("DSN=" + d.worker)
			stop := feed(t, b, in, 7, 3)
			r := j.start().running()
			r.checkpoints(2)
			j.must("stop")
			r.ends(0)
			d.exec("CREATE TABLE backup AS SELECT * FROM copied; CREATE TABLE backup_marker AS SELECT * FROM etl.marker")
			r = j.start().running()
			j.remembers("copied", "2")
			if name == "wal" {
				r.kill()
			} else {
				j.must("stop")
				r.ends(0)
			}
			d.deserted() // or both wait for each other's locks
			d.exec("TRUNCATE copied, etl.marker; INSERT INTO copied SELECT * FROM backup; INSERT INTO etl.marker SELECT * FROM backup_marker")
			j.refused(j.etl("run"), 5, "sink.forgotten", "committed and confirmed", "rows from")
			j.refused(j.etl("run"), 5, "sink.forgotten")

			r = j.start("--from", j.checkpoints()[2], "--accept-duplicates").running()
			r.checkpoints(4)
			j.must("stop")
			r.ends(0)
			r = j.start().running()
			n := stop()
			d.wants("SELECT sum(c) FROM counted", fmt.Sprint(n))
			j.must("stop")
			r.ends(0)
		})
	}
}

// remembers waits until the running attempt has noted, where a process that is killed finds it
// again, that it has committed rows of a sink. A checkpoint may be confirmed and have had none,
// and that it is confirmed is noted by a later one.
func (j *job) remembers(sink, attempt string) {
	j.t.Helper()
	listed := map[string][]stream.CheckpointID{}
	eventually(j.t, "the log says that rows of "+sink+" are committed", func() bool {
		m := j.newest()
		for _, c := range m.Committables {
			if id, err := stream.ParseCheckpointID(c.Checkpoint); err == nil && c.Sink == sink && strings.HasPrefix(c.Checkpoint, attempt+".") {
				lane := fmt.Sprint(sink, "/", c.Subtask)
				listed[lane] = append(listed[lane], id)
			}
		}
		for lane, ids := range listed {
			if done, err := stream.ParseCheckpointID(m.Confirmed[lane]); err == nil && slices.Min(ids) <= done {
				return true
			}
		}
		return false
	})
}
