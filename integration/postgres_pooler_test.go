package integration

import (
	"testing"

	"etl/internal/kafkatest"
	"etl/internal/pgtest"
)

// Behind a pooler every transaction may meet another session. Both strategies work through
// one in transaction mode, and are exact when the answer to a commit is lost; statement
// mode is refused at the start.
func TestPostgresPooler(t *testing.T) {
	t.Parallel()
	for strategy, point := range map[string]string{"prepared": "postgres.commit.sent:3:kill", "staged": "postgres.merge.sent:3:kill"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			b, d := kafkatest.Shared(t), newDatabase(t, pgtest.Shared(t))
			j, in := newTableJob(t, b, d, strategy)
			j.set("DSN=" + pgtest.Pooler(t, "transaction", d.worker)[0])
			stop := feed(t, b, in, 5, 3)
			j.faulty(point).killed()
			r := j.start().running()
			r.checkpoints(3)
			n := stop()
			d.counted(n, 5)
			j.must("stop")
			r.ends(0)
			d.counted(n, 5)
			d.settled()
			j.set("DSN=" + pgtest.Pooler(t, "statement", d.worker)[0])
			j.refused(j.etl("run"), 3, "postgres.statement_pooling", "pooler")
		})
	}
}
