package integration

import (
	"testing"

	"etl/internal/kafkatest"
	"etl/internal/pgtest"
)

// Exactly once into tables: the process is killed when a transaction is prepared and
// nobody knows it, when the answer to a commit is lost, between the commits of two
// subtasks, and twice while it recovers. Its role may create nothing. Each strategy has
// the points of its own.
func TestPostgresKilled(t *testing.T) {
	t.Parallel()
	for strategy, points := range map[string][]string{
		"prepared": {"postgres.prepared:5", "postgres.commit.sent:3", "postgres.commit.after:6", "postgres.recover.marker:1", "postgres.fence.rolled:1"},
		"staged":   {"postgres.stage.sent:5", "postgres.merge.merged:3", "postgres.merge.sent:6", "postgres.recover.probed:1", "postgres.fence.takenover:1"},
	} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			b, d := kafkatest.Shared(t), newDatabase(t, pgtest.Shared(t))
			j, in := newTableJob(t, b, d, strategy)
			stop := feed(t, b, in, 7, 3)
			for _, p := range points {
				j.faulty(p + ":kill").killed()
			}
			r := j.start().running()
			r.checkpoints(3)
			n := stop()
			d.counted(n, 7)
			j.must("stop")
			r.ends(0)
			d.counted(n, 7)
			d.settled()
		})
	}
}
