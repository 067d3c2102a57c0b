package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A process that was stopped while it was fenced, and goes on, may open a transaction
// under an id that nobody had seen. If its successor ends before the next sweep,
// nobody would end it before it times out, and readers would wait that long.
//
// In virtual time a busy machine does not use up what the last sweep may take.
func TestLastSweepFreesReaders(t *testing.T) {
	virtual(t, func(j *job) {
		j.start()
		j.write(10)
		j.checkpoint()
		j.crash()
		j.start()
		id := j.cfg.names("job", uid, j.attempt.Lineage()).TxID(0, 1, 9)
		zombie, err := j.cfg.Conn.NewClient(kgo.TransactionalID(id), kgo.DefaultProduceTopic(j.topic))
		j.must(err)
		defer zombie.Close()
		ctx := j.t.Context()
		j.must(zombie.Ping(ctx))
		j.must(zombie.BeginTransaction())
		j.must(zombie.ProduceSync(ctx, kgo.StringRecord("late")).FirstErr())
		if free, all := j.ends(); free == all {
			j.t.Fatal("the zombie holds nobody back: this test proves nothing")
		}
		j.crash() // ends the committer as any end does
		if free, all := j.ends(); free != all {
			j.t.Errorf("readers are held back at %d of %d", free, all)
		}
	})
}

// ends returns the sums of the last stable offsets and of the ends of the job's topic.
func (j *job) ends() (stable, all int64) {
	j.t.Helper()
	cl, err := j.cfg.Conn.NewClient()
	j.must(err)
	defer cl.Close()
	free, err := kadm.NewClient(cl).ListCommittedOffsets(j.t.Context(), j.topic)
	j.must(err)
	end, err := kadm.NewClient(cl).ListEndOffsets(j.t.Context(), j.topic)
	j.must(err)
	free.Each(func(o kadm.ListedOffset) { stable += o.Offset })
	end.Each(func(o kadm.ListedOffset) { all += o.Offset })
	return stable, all
}
