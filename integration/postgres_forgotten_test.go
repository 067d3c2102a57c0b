package integration

import (
	"fmt"
	"testing"

	"etl/internal/kafkatest"
	"etl/internal/pgtest"
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
			j := newJob(t, b, c.text, "IN="+in, "OUT="+b.Topic(t, 3), "STRATEGY="+c.strategy, "DSN="+d.admin)
			j.must("sink init", "--apply", "--role", d.role)
			j.set("DSN=" + d.worker)
			stop := feed(t, b, in, 7, 3)
			r := j.start().running()
			r.checkpoints(2)
			j.must("stop")
			r.ends(0)
			d.exec("CREATE TABLE backup AS SELECT * FROM copied; CREATE TABLE backup_marker AS SELECT * FROM etl.marker")
			r = j.start().running()
			r.checkpoints(2)
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

			ids := j.checkpoints()
			r = j.start("--from", ids[len(ids)-1], "--accept-duplicates").running()
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
