package integration

import (
	"syscall"
	"testing"

	"etl/internal/kafkatest"
	"etl/internal/pgtest"
)

// A process that was stopped in the middle of its commit, or lost with its machine, still
// holds a transaction with the marker that its successor has to write. The successor takes
// over all the same, and what the stopped one goes on to do is in vain.
func TestPostgresOwnerStopped(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, strategy, point string }{
		"staged": {intoTables, "staged", "postgres.merge.merged"},
		"wal":    {throughLog, "", "wal.postgres.written"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, d := kafkatest.Shared(t), newDatabase(t, pgtest.Shared(t))
			in := b.Topic(t, 3)
			d.exec(tables)
			j := newJob(t, b, c.text, "IN="+in, "OUT="+b.Topic(t, 3), "STRATEGY="+c.strategy, "DSN="+d.admin)
			j.must("sink init", "--apply", "--role", d.role)
			j.set("DSN=" + d.worker)
			stop := feed(t, b, in, 7, 3)
			first := j.faulty(c.point + ":3:stop")
			first.stopped()
			second := j.start("--take-over").running()
			first.signal(syscall.SIGCONT)
			first.ends(6)
			second.checkpoints(3)
			if second.count("restarting from the last checkpoint") > 0 {
				t.Error("the successor was disturbed")
			}
			n := stop()
			d.counted(n, 7)
			j.must("stop")
			second.ends(0)
			d.counted(n, 7)
			d.settled()
		})
	}
}
