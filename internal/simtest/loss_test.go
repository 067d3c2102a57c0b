package simtest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"etl/stream"
)

// txn is a prepared transaction as a committable describes it.
type txn struct {
	TxID  string `json:"txid"`
	PID   int64  `json:"pid"`
	Epoch int16  `json:"epoch"`
	Start int64  `json:"start_ms"`
}

// producer is what the rows of a transaction have in common.
type producer struct {
	pid   int64
	epoch int16
}

// openTxns returns what is open now, by the epoch its rows have.
func (s *sim) openTxns() map[producer]bool {
	cl := s.client()
	defer cl.Close()
	out := map[producer]bool{}
	ts, err := kadm.NewClient(cl).DescribeTransactions(context.Background())
	if err != nil {
		s.fail("describe transactions: %v", err)
	}
	for _, t := range ts {
		if t.State == "Ongoing" {
			out[producer{t.ProducerID, t.ProducerEpoch}] = true
		}
	}
	return out
}

// truth is what really became of prepared transactions.
type truth struct {
	committed, open map[producer]bool
	now             time.Time
}

func (t *truth) lost(c *logCommittable) bool {
	x := c.txn()
	p := producer{x.PID, x.Epoch}
	return !t.committed[p] && !t.open[p]
}

func (t *truth) isCommitted(c *logCommittable) bool {
	x := c.txn()
	return t.committed[producer{x.PID, x.Epoch}]
}

// forgotten: the outside may have forgotten what became of it. A tenth of the time
// is given away for clocks that disagree.
func (t *truth) forgotten(c *logCommittable) bool {
	return t.now.Sub(time.UnixMilli(c.txn().Start)) >= offsetsRetention-offsetsRetention/10
}

func (c *logCommittable) txn() (t txn) {
	_ = json.Unmarshal(c.Payload, &t)
	return t
}

// checkLoss: the job refused to go on because rows are lost or their fate is not
// known. That must be so: no retained checkpoint could have been restored exactly.
// Nothing may be there twice all the same.
func (s *sim) checkLoss(finals map[string]map[int32][]seen) {
	switch code := stream.CodeOf(s.lossTold); code {
	case "sink.lost", "sink.undecided", "restore.no_exact_checkpoint":
	default:
		s.fail("the job declares a loss: %v (%s)", s.lossTold, code)
	}
	t := &truth{committed: map[producer]bool{}, open: s.openAtLoss, now: s.lossAt}
	for _, o := range s.outlets {
		s.checkAtMostOnce(o, finals[o.topic])
		for _, rows := range finals[o.topic] {
			for _, r := range rows {
				t.committed[producer{r.rec.ProducerID, r.rec.ProducerEpoch}] = true
			}
		}
	}
	log := s.readLog()
	published, confirmed := publishedIn(log)
	if n := len(published); n == 0 || !published[n-1].outlived(s.lossAt, confirmed) {
		s.fail("the job declares a loss (%v), and no transaction can have timed out", s.lossTold)
	}
	for _, m := range slices.Backward(published) {
		if why := s.unusable(t, m, published, confirmed); why == "" {
			s.fail("the job declares a loss (%v), but checkpoint %s could have been restored", s.lossTold, m.ID)
			return
		}
	}
}

// publishedIn returns the checkpoints a restart may choose from, and what is noted
// as resolved, by lane.
func publishedIn(log []logEntry) (out []*logCheckpoint, confirmed map[string]uint64) {
	gone := map[string]bool{}
	confirmed = map[string]uint64{}
	for _, e := range log {
		gone[e.Abandoned] = true
		for lane, id := range e.Confirmed {
			confirmed[lane] = max(confirmed[lane], number(id))
		}
	}
	for _, e := range log {
		if e.Metadata == nil || gone[e.Metadata.ID] {
			continue
		}
		out = append(out, e.Metadata)
		for lane, id := range e.Metadata.ConfirmedThrough {
			confirmed[lane] = max(confirmed[lane], number(id))
		}
	}
	return out, confirmed
}

func (c *logCommittable) lane() string { return fmt.Sprintf("%s/%d", c.Sink, c.Subtask) }

// unusable says why restoring m would lose or repeat rows, or could; "" if it would
// be exact, and could be known to be.
func (s *sim) unusable(t *truth, m *logCheckpoint, published []*logCheckpoint, confirmed map[string]uint64) string {
	for i := range m.Committables {
		c := &m.Committables[i]
		if number(c.Checkpoint) <= confirmed[c.lane()] {
			continue
		}
		if t.lost(c) {
			return c.lane() + " lost " + c.Checkpoint
		}
		if t.forgotten(c) {
			return "the fate of " + c.Checkpoint + " is forgotten"
		}
	}
	for _, later := range published {
		for i := range later.Committables {
			c := &later.Committables[i]
			if number(c.Checkpoint) <= number(m.ID) {
				continue
			}
			if t.isCommitted(c) || number(c.Checkpoint) <= confirmed[c.lane()] {
				return c.lane() + " has committed " + c.Checkpoint
			}
			if t.forgotten(c) {
				return "the fate of " + c.Checkpoint + " is forgotten"
			}
		}
	}
	return ""
}

// checkAtMostOnce: rows may be missing, but none is there twice or out of order.
func (s *sim) checkAtMostOnce(o *outlet, final map[int32][]seen) {
	if o.kind == eachOnce {
		for p, rows := range final {
			s.checkOnce(o, o.want()[p], rows)
		}
		return
	}
	if o.kind != inOrder {
		last := map[string]int{}
		for _, p := range slices.Sorted(maps.Keys(final)) {
			for _, row := range final[p] {
				n, _ := strconv.Atoi(string(row.rec.Value))
				if n <= last[string(row.rec.Key)] {
					s.fail("after a declared loss: %s follows count %d", row, last[string(row.rec.Key)])
				}
				last[string(row.rec.Key)] = n
			}
		}
		return
	}
	want := o.want()
	for p, rows := range final {
		i := 0
		for _, row := range rows {
			for i < len(want[p]) && !sameRecord(want[p][i], row.rec) {
				i++
			}
			if i == len(want[p]) {
				s.fail("after a declared loss: %s is there twice, or out of order", row)
				return
			}
			i++
		}
	}
}
