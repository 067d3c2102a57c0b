package kafkaconn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Limits are what a cluster allows; they decide how long work may stay in doubt.
type Limits struct {
	// Known is false when the brokers did not tell, for want of DESCRIBE_CONFIGS on
	// the cluster; the rest holds Kafka's defaults then.
	Known bool
	// TransactionTimeout is transaction.max.timeout.ms: the longest a transaction may
	// stay open; Kafka's default 15m.
	TransactionTimeout time.Duration
	// IDExpiration is transactional.id.expiration.ms: how long an unused
	// transactional id is remembered; Kafka's default 7 days.
	IDExpiration time.Duration
	// OffsetsRetention is offsets.retention.minutes: how long a committed offset, and
	// so a marker, outlives its commit; Kafka's default 7 days.
	OffsetsRetention time.Duration
}

var defaultLimits = Limits{
	TransactionTimeout: 15 * time.Minute,
	IDExpiration:       7 * 24 * time.Hour,
	OffsetsRetention:   7 * 24 * time.Hour,
}

// ReadLimits asks the brokers. They may differ while a setting is rolled out: the
// lowest value of each counts.
func ReadLimits(ctx context.Context, cl *kgo.Client) (Limits, error) {
	const op = "read broker limits"
	adm := kadm.NewClient(cl)
	brokers, err := adm.ListBrokers(ctx)
	if err != nil {
		return Limits{}, Explain(err, op)
	}
	configs, err := adm.DescribeBrokerConfigs(ctx, brokers.NodeIDs()...)
	if err != nil && !Refused(err) && len(configs) == 0 {
		return Limits{}, Explain(err, op)
	}
	l := defaultLimits
	for _, c := range configs {
		if c.Err != nil {
			if Refused(c.Err) {
				return defaultLimits, nil
			}
			return Limits{}, Explain(c.Err, op, Access{Kind: Cluster, Operation: "DESCRIBE_CONFIGS"})
		}
		if err := l.take(c, !l.Known); err != nil {
			return Limits{}, Explain(err, op)
		}
		l.Known = true
	}
	return l, nil
}

func (l *Limits) take(c kadm.ResourceConfig, first bool) (err error) {
	for _, kv := range c.Configs {
		switch kv.Key {
		case "transaction.max.timeout.ms":
			err = errors.Join(err, lower(&l.TransactionTimeout, first, kv, time.Millisecond))
		case "transactional.id.expiration.ms":
			err = errors.Join(err, lower(&l.IDExpiration, first, kv, time.Millisecond))
		case "offsets.retention.minutes":
			err = errors.Join(err, lower(&l.OffsetsRetention, first, kv, time.Minute))
		}
	}
	return err
}

func lower(d *time.Duration, first bool, kv kadm.Config, unit time.Duration) error {
	n, err := strconv.ParseInt(kv.MaybeValue(), 10, 64)
	if err != nil || n <= 0 {
		return fmt.Errorf("broker setting %s is %q", kv.Key, kv.MaybeValue())
	}
	if v := time.Duration(n) * unit; first || v < *d {
		*d = v
	}
	return nil
}

// TransactionVersion returns the cluster's finalized level of transaction.version:
// 2 since Kafka 4.0 by default (KIP-890), 0 where the feature is unknown.
func TransactionVersion(ctx context.Context, cl *kgo.Client) (int16, error) {
	resp, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, cl)
	if err != nil {
		return 0, Explain(err, "read cluster features")
	}
	for _, f := range resp.FinalizedFeatures {
		if f.Name == "transaction.version" {
			return f.MaxVersionLevel, nil
		}
	}
	return 0, nil
}

// TopicInfo is what a producer needs to know about a topic.
type TopicInfo struct {
	Name       string
	ID         [16]byte
	Partitions int32
	// MaxMessageBytes is the largest record batch, as sent, that the topic takes:
	// max.message.bytes. Kafka's default when the broker did not tell.
	MaxMessageBytes int32
	// Past and Future are how far a record's own time may lie from the broker's:
	// message.timestamp.before.max.ms and after.max.ms, by default without limit and,
	// since Kafka 3.6, an hour. Anytime where the topic does not mind, stamps records
	// itself, or the broker did not tell.
	Past, Future time.Duration
}

// Anytime as a limit of times is none.
const Anytime time.Duration = math.MaxInt64

const defaultMaxMessageBytes = 1048588

// ReadTopics describes topics that must exist. A missing right to read their
// settings (DESCRIBE_CONFIGS) is no error; the default size limit is assumed then.
func ReadTopics(ctx context.Context, cl *kgo.Client, names ...string) ([]TopicInfo, error) {
	const op = "describe topic"
	adm := kadm.NewClient(cl)
	details, err := adm.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return nil, Explain(err, op)
	}
	infos := make([]TopicInfo, len(names))
	for i, name := range names {
		d, ok := details[name]
		if !ok {
			return nil, Explain(fmt.Errorf("the brokers left topic %s out of their answer", name), op)
		}
		if d.Err != nil {
			return nil, Explain(d.Err, op, Access{Kind: Topic, Name: name, Operation: "DESCRIBE"})
		}
		infos[i] = TopicInfo{Name: name, ID: d.ID, Partitions: int32(len(d.Partitions)), MaxMessageBytes: defaultMaxMessageBytes, Past: Anytime, Future: Anytime}
	}
	return infos, readSettings(ctx, adm, infos)
}

func readSettings(ctx context.Context, adm *kadm.Client, infos []TopicInfo) error {
	names := make([]string, len(infos))
	for i := range infos {
		names[i] = infos[i].Name
	}
	configs, err := adm.DescribeTopicConfigs(ctx, names...)
	if err != nil && !Refused(err) {
		return Explain(err, "describe topic settings")
	}
	for i := range infos {
		c, err := configs.On(infos[i].Name, nil)
		if err != nil || c.Err != nil {
			continue // not allowed to know: the default
		}
		infos[i].take(c.Configs)
	}
	return nil
}

// take reads what matters of a topic's settings. message.timestamp.difference.max.ms is
// what the two limits were before Kafka 3.6.
func (t *TopicInfo) take(settings []kadm.Config) {
	stamped := false
	for _, kv := range settings {
		n, err := strconv.ParseInt(kv.MaybeValue(), 10, 64)
		switch {
		case kv.Key == "message.timestamp.type":
			stamped = kv.MaybeValue() == "LogAppendTime"
		case err != nil:
		case kv.Key == "max.message.bytes":
			t.MaxMessageBytes = int32(min(n, math.MaxInt32))
		case kv.Key == "message.timestamp.before.max.ms":
			t.Past = min(t.Past, millis(n))
		case kv.Key == "message.timestamp.after.max.ms":
			t.Future = min(t.Future, millis(n))
		case kv.Key == "message.timestamp.difference.max.ms":
			t.Past, t.Future = min(t.Past, millis(n)), min(t.Future, millis(n))
		}
	}
	if stamped {
		t.Past, t.Future = Anytime, Anytime
	}
}

func millis(n int64) time.Duration {
	if n > math.MaxInt64/int64(time.Millisecond) {
		return Anytime
	}
	return time.Duration(n) * time.Millisecond
}
