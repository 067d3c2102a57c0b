package kafkatxn

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkaconn"
	"etl/stream"
)

// TopicLimits knows what each topic takes, so that a row the brokers would refuse is
// rejected by itself: a promise that fails takes the whole attempt with it, and after
// the restart the row would be there again. It is read on the task goroutine and by
// kgo, and refreshed in the background.
type TopicLimits struct {
	current atomic.Pointer[map[string]topicLimit]
	at      time.Time // of the last refresh; of whoever refreshes
}

type topicLimit struct {
	bytes        int // of a record batch, max.message.bytes
	past, future time.Duration
}

// unread is for a topic nobody described: the default of Kafka's clients.
var unread = topicLimit{bytes: 1000012, past: kafkaconn.Anytime, future: kafkaconn.Anytime}

// refreshEvery is how long a topic's settings are believed.
const refreshEvery = time.Minute

// largestBatch keeps one batch inside kgo's largest request.
const largestBatch = 64 << 20

func (l *TopicLimits) of(topic string) topicLimit {
	if m := l.current.Load(); m != nil {
		if t, ok := (*m)[topic]; ok {
			return t
		}
	}
	return unread
}

// BatchBytes is how large a record batch of a topic may be.
func (l *TopicLimits) BatchBytes(topic string) int32 { return int32(l.of(topic).bytes) }

// Refresh looks again when what is known is older than refreshEvery.
func (l *TopicLimits) Refresh(ctx context.Context, raw *Client, now time.Time) error {
	if l.current.Load() != nil && now.Sub(l.at) < refreshEvery {
		return nil
	}
	infos, err := raw.Refresh(ctx)
	if err != nil {
		return err
	}
	m := make(map[string]topicLimit, len(infos))
	for _, i := range infos {
		m[i.Name] = topicLimit{bytes: int(min(i.MaxMessageBytes, largestBatch)), past: i.Past, future: i.Future}
	}
	l.current.Store(&m)
	l.at = now
	return nil
}

// Checker checks the rows of one batch.
type Checker struct {
	Limits *TopicLimits
	Topics []string
	Now    time.Time

	topic    string // the last one that was looked up
	limit    topicLimit
	lo, hi   int64 // times it takes, ms
	declared bool
}

// NoTimestamp is the time of a record that has none; brokers take it anywhere.
const NoTimestamp = -1

// The times kgo can write: it counts them in nanoseconds on their way into a batch, and
// beyond these would write another time without a word.
const (
	MinTimestamp = math.MinInt64 / int64(time.Millisecond)
	MaxTimestamp = math.MaxInt64 / int64(time.Millisecond)
)

// look takes up the limits of a topic.
func (c *Checker) look(topic string) {
	c.topic, c.limit, c.declared = topic, c.Limits.of(topic), false
	for _, t := range c.Topics {
		c.declared = c.declared || t == topic
	}
	c.lo, c.hi = MinTimestamp, MaxTimestamp
	now := c.Now.UnixMilli()
	if c.limit.past != kafkaconn.Anytime {
		c.lo = max(c.lo, now-c.limit.past.Milliseconds())
	}
	if c.limit.future != kafkaconn.Anytime {
		c.hi = min(c.hi, now+c.limit.future.Milliseconds())
	}
}

// Check refuses a row that the brokers would refuse.
func (c *Checker) Check(k *kgo.Record, r *stream.Record) error {
	if k.Topic != c.topic {
		c.look(k.Topic)
	}
	if !c.declared {
		return rejected(r, "kafka.topic_not_declared", fmt.Errorf("topic %q is not one of the sink's topics: a recovery would not know it", k.Topic))
	}
	if n := AloneSize(k); n > c.limit.bytes {
		return rejected(r, "kafka.record_too_large", fmt.Errorf("%w: %d bytes for topic %s, which takes %d (max.message.bytes)", kerr.MessageTooLarge, n, k.Topic, c.limit.bytes))
	}
	if (r.Timestamp < c.lo || r.Timestamp > c.hi) && r.Timestamp != NoTimestamp {
		return rejected(r, "kafka.timestamp_out_of_range", fmt.Errorf("%w: timestamp %d ms; topic %s takes times of at most %s before now and %s after (message.timestamp.before.max.ms and after.max.ms)",
			kerr.InvalidTimestamp, r.Timestamp, k.Topic, span(c.limit.past), span(c.limit.future)))
	}
	return nil
}

// span words a limit, and not the time it gives now: a replay rejects in the same words.
func span(d time.Duration) string {
	if d == kafkaconn.Anytime {
		return "any time"
	}
	return d.String()
}

func rejected(r *stream.Record, code string, err error) error {
	return &stream.Error{Class: stream.Failed, Code: code, Op: "write", Subject: fmt.Sprintf("%s/%d@%d", r.Topic, r.Partition, r.Offset), Err: err}
}
