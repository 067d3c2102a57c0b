package integration

import (
	"errors"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"etl/internal/kafkatest"
)

// Somebody ends a prepared transaction at its partition, behind the coordinator's
// back, as a tool for hanging transactions can. Nothing on the coordinator's side
// tells, and the commit succeeds: rows are gone, and etl verify finds them (K26).
func TestForcedAbortIsFound(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, out := b.Topic(t, 1), b.Topic(t, 1)
	j := newJob(t, b, copying, "IN="+in, "OUT="+out)
	produce(t, b, in, values(0, "a", "b")...)
	r := j.faulty("kafka.endtxn.before:1:stop")
	r.stopped()
	forceAbort(t, b, out)
	r.signal(syscall.SIGCONT)
	produce(t, b, in, values(0, "c")...)
	eventually(t, "the next row is visible", func() bool { return len(texts(t, b, out)) > 0 })
	j.must("stop")
	r.ends(0)
	exactly(t, b, out, "c")
	a := j.etl("verify", "--finished", "--settle", "0s")
	j.refused(a, 1, "verify.mismatch", "missing 2", "duplicated 0")
}

// forceAbort writes abort markers for every open transaction of partition 0.
func forceAbort(t testing.TB, b *kafkatest.Broker, topic string) {
	t.Helper()
	admin(t, b, "abort by force", func(adm *kadm.Client) error {
		s := kadm.TopicsSet{}
		s.Add(topic, 0)
		d, err := adm.DescribeProducers(t.Context(), s)
		if err != nil {
			return err
		}
		var errs []error
		for _, p := range d[topic].Partitions[0].ActiveProducers {
			if p.CurrentTxnStartOffset < 0 {
				continue
			}
			m := kadm.TxnMarkers{ProducerID: p.ProducerID, ProducerEpoch: int16(p.ProducerEpoch), CoordinatorEpoch: max(p.CoordinatorEpoch, 0), Topics: s}
			_, err := adm.WriteTxnMarkers(t.Context(), m)
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	free(t, b, topic)
}
