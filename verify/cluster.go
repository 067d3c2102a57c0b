package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"etl/internal/kafkaconn"
	"etl/stream"
)

// cluster asks the brokers of one connection.
type cluster struct {
	conn    kafkaconn.Config
	cl      *kgo.Client
	adm     *kadm.Client
	clock   stream.Clock
	unpack  kgo.Decompressor
	leaders map[string]map[int32]int32
	ids     map[string][16]byte
}

// dial makes the client. It does not wait for a broker.
func dial(conn kafkaconn.Config, clock stream.Clock) (*cluster, error) {
	cl, err := conn.NewClient()
	if err != nil {
		return nil, err
	}
	return &cluster{conn: conn, cl: cl, adm: kadm.NewClient(cl), clock: clock, unpack: kgo.DefaultDecompressor(),
		leaders: map[string]map[int32]int32{}, ids: map[string][16]byte{}}, nil
}

func (c *cluster) close() { c.cl.Close() }

// bounds are the offsets of a partition at one moment: where its log begins, up to
// where all transactions are decided, and where it ends.
type bounds struct{ start, stable, end int64 }

// measure returns the bounds of all partitions of a topic, by partition. The last
// stable offset is asked before the end, so that whatever was decided then has its
// control record before the end.
func (c *cluster) measure(ctx context.Context, topic string) ([]bounds, error) {
	var out []bounds
	for i, ask := range []func(context.Context, ...string) (kadm.ListedOffsets, error){c.adm.ListStartOffsets, c.adm.ListCommittedOffsets, c.adm.ListEndOffsets} {
		var listed kadm.ListedOffsets
		err := c.patiently(ctx, func() (err error) {
			if listed, err = ask(ctx, topic); err == nil {
				err = listed.Error()
			}
			return err
		})
		if err != nil {
			return nil, kafkaconn.Explain(err, "list offsets", kafkaconn.Access{Kind: kafkaconn.Topic, Name: topic, Operation: "DESCRIBE"})
		}
		if out == nil {
			out = make([]bounds, len(listed[topic]))
		}
		if len(listed[topic]) != len(out) {
			return nil, stream.Errorf(stream.Retry, "verify.partitions", "list offsets", "topic "+topic, "the number of partitions changed from %d to %d", len(out), len(listed[topic]))
		}
		for p := range out {
			o, ok := listed.Lookup(topic, int32(p))
			if !ok {
				return nil, stream.Errorf(stream.Retry, "verify.no_answer", "list offsets", partitionName(topic, int32(p)), "the brokers left the partition out of their answer")
			}
			*[]*int64{&out[p].start, &out[p].stable, &out[p].end}[i] = o.Offset
		}
	}
	return out, nil
}

// The patience with brokers that are being restarted or elect a leader.
const (
	tries      = 100
	tryAgainIn = 300 * time.Millisecond
)

// patiently repeats what may succeed later.
func (c *cluster) patiently(ctx context.Context, f func() error) error {
	for n := 1; ; n++ {
		err := f()
		if err == nil || n == tries || ctx.Err() != nil || !passing(err) {
			return err
		}
		clear(c.leaders)
		if err := c.clock.Sleep(ctx, tryAgainIn); err != nil {
			return err
		}
	}
}

// passing reports whether an error may go away by itself.
func passing(err error) bool {
	var list *kadm.ShardErrors
	if errors.As(err, &list) {
		return true
	}
	return stream.ClassOf(kafkaconn.Explain(err, "")) == stream.Retry || errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, errNoLeader)
}

var errNoLeader = errors.New("the partition has no leader")

// leader returns the broker to fetch a partition from.
func (c *cluster) leader(ctx context.Context, topic string, partition int32) (int32, error) {
	if c.leaders[topic] == nil {
		m, err := c.adm.Metadata(ctx, topic)
		if err != nil {
			return 0, err
		}
		t := m.Topics[topic]
		if t.Err != nil {
			return 0, t.Err
		}
		c.leaders[topic], c.ids[topic] = map[int32]int32{}, t.ID
		for n, p := range t.Partitions {
			c.leaders[topic][n] = p.Leader
		}
	}
	id, ok := c.leaders[topic][partition]
	if !ok || id < 0 {
		return 0, errNoLeader
	}
	return id, nil
}

// The size of one fetch.
const (
	fetchBytes = 8 << 20
	fetchWait  = 100 // ms
)

// fetch returns everything that one request gives from offset on, control records
// and the data of undecided and aborted transactions included, and the offset
// behind it.
func (c *cluster) fetch(ctx context.Context, topic string, partition int32, offset int64) (recs []*kgo.Record, next int64, err error) {
	err = c.patiently(ctx, func() error {
		recs, next, err = c.fetchOnce(ctx, topic, partition, offset)
		return err
	})
	return recs, next, kafkaconn.Explain(err, "read "+partitionName(topic, partition), kafkaconn.Access{Kind: kafkaconn.Topic, Name: topic, Operation: "READ"})
}

func (c *cluster) fetchOnce(ctx context.Context, topic string, partition int32, offset int64) ([]*kgo.Record, int64, error) {
	leader, err := c.leader(ctx, topic, partition)
	if err != nil {
		return nil, 0, err
	}
	resp, err := c.cl.Broker(int(leader)).Request(ctx, c.request(topic, partition, offset))
	if err != nil {
		return nil, 0, err
	}
	answer := resp.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return nil, 0, err
	}
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 || answer.Topics[0].Partitions[0].Partition != partition {
		return nil, 0, fmt.Errorf("the broker's answer is not about the partition it was asked for: %w", kerr.UnknownServerError)
	}
	part, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{KeepControlRecords: true, Offset: offset, IsolationLevel: kgo.ReadUncommitted(),
		Topic: topic, Partition: partition}, &answer.Topics[0].Partitions[0], c.unpack, nil)
	if part.Err != nil {
		return nil, 0, part.Err
	}
	return part.Records, next, nil
}

func (c *cluster) request(topic string, partition int32, offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = fetchWait, 1, fetchBytes
	req.SessionEpoch = -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = topic, c.ids[topic]
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, fetchBytes
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}
