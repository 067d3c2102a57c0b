package verify

import (
	"cmp"
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
	known   bool // it has answered before
}

// dial makes the client. It does not wait for a broker.
func dial(conn kafkaconn.Config, clock stream.Clock) (*cluster, error) {
	cl, err := conn.NewClient(kgo.RetryTimeout(askFor))
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
		err := c.patiently(ctx, func(ctx context.Context) (err error) {
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

// The patience with brokers. docs/verify.md names the first two.
const (
	// strangerPatience is for a cluster that has never answered: it may be starting.
	strangerPatience = 30 * time.Second
	// restartPatience is for one that has: brokers are restarted, and elect leaders.
	restartPatience = 2 * time.Minute
	// askFor is how long the client asks by itself before the question is begun anew.
	askFor     = 10 * time.Second
	tryAgainIn = 300 * time.Millisecond
)

// patiently repeats what may succeed later, for a bounded time. What comes back in the end
// is what was seen last, and not that the time is over.
func (c *cluster) patiently(ctx context.Context, f func(context.Context) error) error {
	patience := strangerPatience
	if c.known {
		patience = restartPatience
	}
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var seen error
	for {
		err := f(within)
		switch {
		case err == nil:
			c.known = true
			return nil
		case ctx.Err() != nil || within.Err() == nil && !passing(err):
			return err
		case within.Err() == nil || seen == nil:
			seen = err
		}
		clear(c.leaders)
		if c.clock.Sleep(within, tryAgainIn) != nil {
			return cmp.Or(ctx.Err(), silent(seen, patience))
		}
	}
}

// silent words the end of the patience where nothing at all was seen.
func silent(seen error, patience time.Duration) error {
	if !errors.Is(seen, context.DeadlineExceeded) {
		return seen
	}
	return stream.Errorf(stream.Retry, "kafka.unreachable", "ask the brokers", "", "no answer in %v", patience).
		WithFix("check the broker's address, that it runs, and the network between")
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
	err = c.patiently(ctx, func(ctx context.Context) error {
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
