package kafkatxn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"etl/internal/kafkaconn"
)

// offsetsTopic holds the committed offsets of groups, and so the markers.
const offsetsTopic = "__consumer_offsets"

// The states a coordinator reports. kfake knows only Empty and Ongoing.
const (
	stateOngoing        = "Ongoing"
	statePrepareCommit  = "PrepareCommit"
	statePrepareAbort   = "PrepareAbort"
	statePrepareFence   = "PrepareEpochFence"
	stateCompleteCommit = "CompleteCommit"
	stateCompleteAbort  = "CompleteAbort"
	stateEmpty          = "Empty"
)

// seen is what a coordinator says about a transactional id.
type seen struct {
	found   bool
	state   string
	pid     int64
	epoch   int16
	start   time.Time // zero when nothing is open
	timeout time.Duration
	parts   kadm.TopicsSet
}

// String is for messages.
func (s seen) String() string {
	if !s.found {
		return "the coordinator does not know the id"
	}
	return fmt.Sprintf("the coordinator says %s at producer %d epoch %d", s.state, s.pid, s.epoch)
}

// open reports whether t is what is open under its id.
func (s seen) open(t Txn) bool {
	return s.found && s.state == stateOngoing && s.pid == t.PID && s.epoch == t.Epoch
}

// committing and committed report what the coordinator decided about t. On version 2
// the epoch tells t from earlier and later transactions of its id; on version 1 each
// transaction has an epoch of its own because the id is initialised for each.
func (s seen) committing(t Txn) bool { return s.state == statePrepareCommit && s.after(t) }

func (s seen) committed(t Txn) bool { return s.state == stateCompleteCommit && s.after(t) }

// untouched reports whether nothing happened under the id since t ended. Empty is how
// kfake shows a complete transaction; a real coordinator never says so at this epoch.
func (s seen) untouched(t Txn) bool {
	return s.open(t) || s.committing(t) || s.committed(t) || s.state == stateEmpty && s.after(t)
}

func (s seen) after(t Txn) bool {
	return s.found && s.pid == t.PID && (s.epoch == t.ended() || s.epoch == t.Epoch && s.state != stateEmpty)
}

// unsettled reports whether the coordinator is on its way to another state by itself.
func (s seen) unsettled() bool {
	return s.state == statePrepareCommit || s.state == statePrepareAbort || s.state == statePrepareFence
}

// describe asks the coordinators about ids; unknown ones have found == false.
func (c *Client) describe(ctx context.Context, txids ...string) (map[string]seen, error) {
	adm, err := c.admin()
	if err != nil || len(txids) == 0 { // none would ask for all there are
		return nil, err
	}
	out := make(map[string]seen, len(txids))
	var needs []kafkaconn.Access
	for _, id := range txids {
		needs = append(needs, kafkaconn.Access{Kind: kafkaconn.TransactionalID, Name: id, Operation: "DESCRIBE"})
	}
	err = c.ask(ctx, "describe transactions", needs, func(ctx context.Context) error {
		ds, err := adm.DescribeTransactions(ctx, txids...)
		if err != nil {
			return err
		}
		for _, id := range txids {
			d, ok := ds[id]
			if !ok {
				return errLeftOut
			}
			if out[id], err = read(d); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// errLeftOut is a broker's answer that lacks what was asked for. It is never taken for
// "there is none"; the question is repeated.
var errLeftOut = fmt.Errorf("the broker left something out of its answer: %w", kerr.RequestTimedOut)

func read(d kadm.DescribedTransaction) (seen, error) {
	switch {
	case errors.Is(d.Err, kerr.TransactionalIDNotFound):
		return seen{}, nil
	case d.Err != nil:
		return seen{}, d.Err
	}
	s := seen{found: true, state: d.State, pid: d.ProducerID, epoch: d.ProducerEpoch, parts: d.Topics,
		timeout: time.Duration(d.TimeoutMillis) * time.Millisecond}
	if d.StartTimestamp > 0 {
		s.start = time.UnixMilli(d.StartTimestamp).UTC()
	}
	return s, nil
}

func (c *Client) describeOne(ctx context.Context, txid string) (seen, error) {
	m, err := c.describe(ctx, txid)
	return m[txid], err
}

// stableEnds returns the last stable offset of partitions: where read_committed
// readers stop.
func (c *Client) stableEnds(ctx context.Context, spots []spot) (map[spot]int64, error) {
	cl, err := c.client(2)
	if err != nil {
		return nil, err
	}
	out := make(map[spot]int64, len(spots))
	var needs []kafkaconn.Access
	for topic := range byTopic(spots) {
		needs = append(needs, kafkaconn.Access{Kind: kafkaconn.Topic, Name: topic, Operation: "DESCRIBE"})
	}
	err = c.ask(ctx, "read last stable offsets", needs, func(ctx context.Context) error {
		resp, err := stableRequest(spots).RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return fmt.Errorf("%s/%d: %w", t.Topic, p.Partition, err)
				}
				out[spot{t.Topic, p.Partition}] = p.Offset
			}
		}
		if len(out) < len(spots) {
			return errLeftOut
		}
		return nil
	})
	return out, err
}

func stableRequest(spots []spot) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel = -1, 1
	for topic, parts := range byTopic(spots) {
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = topic
		for n := range parts {
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.Timestamp = n, -1
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}

func byTopic(spots []spot) kadm.TopicsSet {
	set := kadm.TopicsSet{}
	for _, s := range spots {
		set.Add(s.topic, s.partition)
	}
	return set
}

// hanging is a transaction that a partition still holds open.
type hanging struct {
	spot
	pid         int64
	epoch       int16
	coordinator int32
	start       int64
}

// openOn asks partitions which transactions they hold open.
func (c *Client) openOn(ctx context.Context, spots []spot) (out []hanging, err error) {
	for topic, parts := range byTopic(spots) {
		hs, err := c.openOnTopic(ctx, topic, parts)
		if err != nil {
			return nil, err
		}
		out = append(out, hs...)
	}
	return out, nil
}

func (c *Client) openOnTopic(ctx context.Context, topic string, parts map[int32]struct{}) (out []hanging, err error) {
	adm, err := c.admin()
	if err != nil {
		return nil, err
	}
	needs := []kafkaconn.Access{{Kind: kafkaconn.Topic, Name: topic, Operation: "READ"}}
	err = c.ask(ctx, "describe producers", needs, func(ctx context.Context) error {
		out = out[:0]
		dp, err := adm.DescribeProducers(ctx, kadm.TopicsSet{topic: parts})
		if err != nil {
			return err
		}
		for n := range parts {
			p, ok := dp[topic].Partitions[n]
			if !ok {
				return errLeftOut
			}
			if p.Err != nil {
				return fmt.Errorf("%s/%d: %w", topic, n, p.Err)
			}
			for _, x := range p.ActiveProducers {
				if x.CurrentTxnStartOffset >= 0 {
					out = append(out, hanging{spot{topic, n}, x.ProducerID, x.ProducerEpoch, x.CoordinatorEpoch, x.CurrentTxnStartOffset})
				}
			}
		}
		return nil
	})
	return out, err
}

// allSpots lists the partitions of the sink's topics, of more topics, and those that
// hold the markers of all groups.
func (c *Client) allSpots(ctx context.Context, more ...string) (spots []spot, err error) {
	for _, topic := range append(append([]string{offsetsTopic}, c.o.Topics...), more...) {
		ps, err := c.spotsOf(ctx, topic)
		if err != nil {
			return nil, err
		}
		spots = append(spots, ps...)
	}
	return spots, nil
}

// spotsOf lists the partitions of a topic. One that is gone holds nothing open, and the
// offsets topic is nobody's to see who was not given the right to.
func (c *Client) spotsOf(ctx context.Context, topic string) (spots []spot, err error) {
	adm, err := c.admin()
	if err != nil {
		return nil, err
	}
	err = c.ask(ctx, "list partitions", []kafkaconn.Access{{Kind: kafkaconn.Topic, Name: topic, Operation: "DESCRIBE"}}, func(ctx context.Context) error {
		spots = spots[:0]
		ts, err := adm.ListTopicsWithInternal(ctx, topic)
		if err == nil {
			err = ts[topic].Err
		}
		switch {
		case errors.Is(err, kerr.UnknownTopicOrPartition), topic == offsetsTopic && kafkaconn.Refused(err):
			return nil
		case err != nil:
			return err
		}
		for n := range ts[topic].Partitions {
			spots = append(spots, spot{topic, n})
		}
		return nil
	})
	return spots, err
}

// write ends transactions that partitions hold open although their coordinator is done
// with them, as the coordinator would have: at the next epoch from version 2 on.
func (c *Client) write(ctx context.Context, hs []hanging, commit bool) error {
	adm, err := c.admin()
	if err != nil {
		return err
	}
	var ms []kadm.TxnMarkers
	for _, h := range hs {
		m := kadm.TxnMarkers{ProducerID: h.pid, ProducerEpoch: h.epoch, Commit: commit, CoordinatorEpoch: max(h.coordinator, 0), Topics: kadm.TopicsSet{}}
		if c.TV >= 2 {
			m.ProducerEpoch++
		}
		m.Topics.Add(h.topic, h.partition)
		ms = append(ms, m)
	}
	needs := []kafkaconn.Access{{Kind: kafkaconn.Cluster, Operation: "CLUSTER_ACTION"}}
	return c.ask(ctx, "write transaction markers", needs, func(ctx context.Context) error {
		rs, err := adm.WriteTxnMarkers(ctx, ms...)
		if err != nil {
			return err
		}
		return firstError(rs)
	})
}

func firstError(rs kadm.TxnMarkersResponses) (err error) {
	rs.EachPartition(func(p kadm.TxnMarkersPartitionResponse) {
		if err == nil && p.Err != nil {
			err = fmt.Errorf("%s/%d: %w", p.Topic, p.Partition, p.Err)
		}
	})
	return err
}
