package kafkatxn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"etl/internal/broken"
	"etl/internal/fault"
	"etl/internal/kafkaconn"
	"etl/stream"
)

func writeID(t Txn) []kafkaconn.Access {
	return []kafkaconn.Access{{Kind: kafkaconn.TransactionalID, Name: t.TxID, Operation: "WRITE"}}
}

// endTxn sends one EndTxn, in the version that goes with the transaction. It returns
// the epoch in the answer, -1 from versions that carry none.
func (c *Client) endTxn(ctx context.Context, t Txn, commit bool) (code, epoch int16, err error) {
	cl, err := c.client(t.TV)
	if err != nil {
		return 0, -1, err
	}
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = t.TxID, t.PID, t.Epoch, commit
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return 0, -1, err
	}
	return resp.ErrorCode, resp.ProducerEpoch, nil
}

// EndTxn commits or aborts t, from any process: it repeats the identical request
// until the answer is definite or ctx ends. err is nil for Done only.
func (c *Client) EndTxn(ctx context.Context, t Txn, commit bool) (Verdict, error) {
	epoch := int16(-1)
	fault.Point("kafka.endtxn.before")
	v, err := c.repeated(ctx, "end transaction "+t.TxID, writeID(t), EndTxnVerdict, func(ctx context.Context) (code int16, err error) {
		code, epoch, err = c.endTxn(ctx, t, commit)
		return code, err
	})
	fault.Point("kafka.endtxn.after")
	if v == Done {
		err = bumped(t, epoch)
	}
	return v, err
}

// bumped refuses an end that left the epoch where it was on transaction version 2:
// the fence tells committed from aborted by it. Epoch 0 is a new producer id, after
// the last epoch of the old one.
func bumped(t Txn, epoch int16) error {
	if t.TV < 2 || epoch == t.ended() || epoch == 0 {
		return nil
	}
	return stream.Errorf(stream.Restart, "kafka.epoch_not_raised", "end transaction", t.TxID,
		"transaction version %d, epoch %d, and the broker answered with epoch %d", t.TV, t.Epoch, epoch)
}

// initProducer sends InitProducerID without a producer id until it is answered: it
// aborts whatever is open under the id and gives it a new epoch.
func (c *Client) initProducer(ctx context.Context, txid string) (t Txn, err error) {
	cl, err := c.client(c.TV)
	if err != nil {
		return t, err
	}
	t = Txn{TxID: txid, TV: c.TV}
	_, err = c.repeated(ctx, "initialise transactional id "+txid, writeID(t), InitVerdict, func(ctx context.Context) (int16, error) {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.TransactionTimeoutMillis = &txid, int32(c.o.Timeout.Milliseconds())
		req.ProducerID, req.ProducerEpoch = -1, -1
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return 0, err
		}
		t.PID, t.Epoch = resp.ProducerID, resp.ProducerEpoch
		return resp.ErrorCode, nil
	})
	return t, kafkaconn.Explain(err, "initialise transactional id", writeID(t)...)
}

// Mark adds the marker of checkpoint id to the open transaction t: it shows if and
// only if t is committed. An error ends the attempt.
func (c *Client) Mark(ctx context.Context, t Txn, subtask int, id stream.CheckpointID, note string) error {
	fault.Point("kafka.marker.before")
	if broken.Is(broken.MarkerOmitted) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout) // the transaction is dead after that
	defer cancel()
	group := c.o.Names.Group(subtask)
	if t.TV < 2 {
		if err := c.addOffsets(ctx, t, group); err != nil {
			return err
		}
	}
	fault.Point("kafka.marker.added")
	if err := c.commitOffset(ctx, t, group, id, note); err != nil {
		return err
	}
	fault.Point("kafka.marker.after")
	return nil
}

// addOffsets enlists the group; from version 2 on TxnOffsetCommit does it (KIP-890).
func (c *Client) addOffsets(ctx context.Context, t Txn, group string) error {
	cl, err := c.client(t.TV)
	if err != nil {
		return err
	}
	req := kmsg.NewPtrAddOffsetsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = t.TxID, t.PID, t.Epoch, group
	_, err = c.repeated(ctx, "add marker group", markRights(t, group, c.markerTopic()), MarkVerdict, func(ctx context.Context) (int16, error) {
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return 0, err
		}
		return resp.ErrorCode, nil
	})
	return notMarked(err)
}

func (c *Client) commitOffset(ctx context.Context, t Txn, group string, id stream.CheckpointID, note string) error {
	cl, err := c.client(t.TV)
	if err != nil {
		return err
	}
	topic, err := c.topic(ctx, c.markerTopic())
	if err != nil {
		return err
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch, req.Generation = t.TxID, group, t.PID, t.Epoch, -1
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = 0, int64(id), -1, &note
	rt := kmsg.NewTxnOffsetCommitRequestTopic()
	rt.Topic, rt.TopicID = topic.Name, topic.ID // version 6 goes by id, older ones by name
	rt.Partitions = append(rt.Partitions, p)
	req.Topics = append(req.Topics, rt)
	_, err = c.repeated(ctx, "write marker", markRights(t, group, topic.Name), MarkVerdict, func(ctx context.Context) (int16, error) {
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return 0, err
		}
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
			return 0, errors.New("the broker left the marker out of its answer")
		}
		return resp.Topics[0].Partitions[0].ErrorCode, nil
	})
	return notMarked(err)
}

func (c *Client) markerTopic() string { return c.o.Topics[0] }

func markRights(t Txn, group, topic string) []kafkaconn.Access {
	return append(writeID(t),
		kafkaconn.Access{Kind: kafkaconn.Group, Name: group, Operation: "READ"},
		kafkaconn.Access{Kind: kafkaconn.Topic, Name: topic, Operation: "READ"})
}

// notMarked says what a missing marker means: the rows are safe in the source.
func notMarked(err error) error {
	switch {
	case err == nil, stream.ClassOf(err) != stream.Failed && stream.ClassOf(err) != stream.Retry:
		return err
	case errors.Is(err, kerr.OffsetMetadataTooLarge):
		return fmt.Errorf("marker: %w", err)
	}
	return &stream.Error{Class: stream.Restart, Code: "kafka.marker", Op: "prepare transaction", Err: err}
}

// Payload describes the prepared transaction t of a lane.
func (c *Client) Payload(t Txn, subtask, slot int, start time.Time, written []Written) *Payload {
	c.mu.Lock()
	topicID := c.topics[c.markerTopic()].ID
	c.mu.Unlock()
	return &Payload{Txn: t, Slot: slot, Group: c.o.Names.Group(subtask), Topic: c.markerTopic(), TopicID: topicID,
		StartMillis: start.UnixMilli(), TimeoutMillis: c.o.Timeout.Milliseconds(), Written: written}
}
