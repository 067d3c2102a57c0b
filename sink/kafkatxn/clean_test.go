package kafkatxn

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"etl/stream"
)

// TestFenceWritesTheMarkersThatAnAbortLeftOut: a coordinator that died between its decision
// to abort and its markers says that the abort is complete, and partitions hold the rows
// open. A later commit of the producer would bring them back: the fence closes them.
func TestFenceWritesTheMarkersThatAnAbortLeftOut(t *testing.T) {
	l := fakeLab(t)
	txid := l.names.TxID(0, 1, 0)
	l.fill(l.producer(txid, time.Minute), 9)
	before := l.seen(txid)
	var ended, initialised atomic.Bool
	var written atomic.Int32
	l.fake.Control(func(r kmsg.Request) (kmsg.Response, error, bool) {
		l.fake.KeepControl()
		switch r := r.(type) {
		case *kmsg.EndTxnRequest:
			ended.Store(true)
			resp := r.ResponseKind().(*kmsg.EndTxnResponse)
			resp.ProducerID, resp.ProducerEpoch = r.ProducerID, r.ProducerEpoch+1
			return resp, nil, true
		case *kmsg.InitProducerIDRequest:
			if r.TransactionalID == nil {
				return nil, nil, false
			}
			initialised.Store(true)
			resp := r.ResponseKind().(*kmsg.InitProducerIDResponse)
			resp.ProducerID, resp.ProducerEpoch = before.pid, before.epoch+2
			return resp, nil, true
		case *kmsg.DescribeTransactionsRequest:
			if !ended.Load() {
				return nil, nil, false
			}
			resp := r.ResponseKind().(*kmsg.DescribeTransactionsResponse)
			st := kmsg.NewDescribeTransactionsResponseTransactionState()
			st.TransactionalID, st.State, st.ProducerID, st.ProducerEpoch = txid, stateCompleteAbort, before.pid, before.epoch+1
			resp.TransactionStates = append(resp.TransactionStates, st)
			return resp, nil, true
		case *kmsg.WriteTxnMarkersRequest:
			written.Add(1)
			for _, m := range r.Markers {
				if m.ProducerID != before.pid || m.Committed {
					t.Errorf("marker of producer %d, commit %v", m.ProducerID, m.Committed)
				}
			}
		}
		return nil, nil, false
	})
	l.fence([]stream.Attempt{1})
	if !ended.Load() || !initialised.Load() {
		t.Errorf("ended: %v, initialised: %v", ended.Load(), initialised.Load())
	}
	if written.Load() == 0 {
		t.Error("no marker was written")
	}
	// Readers get past it, and see nothing of it.
	l.fill(l.plain(kgo.RecordPartitioner(kgo.ManualPartitioner())), 3)
	if n := l.visible(); n != 3 {
		t.Errorf("%d rows are visible", n)
	}
}
