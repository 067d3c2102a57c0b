package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkaconn"
)

// consumeStall is how long an ordinary consumer may go without a record that the
// first reading has seen.
const consumeStall = 30 * time.Second

// readAgain reads a target as any user of it would, and compares.
func (c *recounting) readAgain(ctx context.Context, t *target) error {
	from := map[int32]kgo.Offset{}
	for p, s := range t.scanned {
		if s.last >= 0 {
			from[int32(p)] = kgo.NewOffset().At(max(t.bounds[p].start, c.o.sinkFrom(t.topic, int32(p))))
		}
	}
	if len(from) == 0 {
		return nil
	}
	cl, err := t.conn.NewClient(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{t.topic: from}), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	if err != nil {
		return err
	}
	defer cl.Close()
	again := make([]seenAgain, len(t.scanned))
	for left := len(from); left > 0; {
		n, err := c.poll(ctx, cl, t, again)
		if err != nil {
			return err
		}
		if n < 0 {
			break
		}
		left = len(from)
		for p := range from {
			if again[p].next > t.scanned[p].last {
				left--
			}
		}
	}
	c.compareReaders(t, again)
	return nil
}

// seenAgain is what the second reader saw of a partition.
type seenAgain struct {
	rows, backwards, next int64
	sum                   uint64
}

// poll takes what the consumer has, and returns -1 when that is nothing for long.
func (c *recounting) poll(ctx context.Context, cl *kgo.Client, t *target, again []seenAgain) (int, error) {
	wait, cancel := context.WithTimeout(ctx, consumeStall)
	defer cancel()
	fetches := cl.PollFetches(wait)
	if err := ctx.Err(); err != nil {
		return 0, context.Cause(ctx)
	}
	for _, e := range fetches.Errors() {
		if errors.Is(e.Err, context.DeadlineExceeded) {
			return -1, nil
		}
		if !passing(e.Err) {
			return 0, kafkaconn.Explain(e.Err, "read "+partitionName(t.topic, e.Partition), kafkaconn.Access{Kind: kafkaconn.Topic, Name: t.topic, Operation: "READ"})
		}
	}
	fetches.EachRecord(func(r *kgo.Record) {
		s := &again[r.Partition]
		if r.Offset < s.next {
			s.backwards++
		}
		s.next = max(s.next, r.Offset+1)
		if r.Offset <= t.scanned[r.Partition].last {
			s.rows++
			s.sum += mix(t.hash.row(r.Key, r.Value, kafkaconn.StreamHeaders(r.Headers)) ^ mix(uint64(r.Offset)))
		}
	})
	return fetches.NumRecords(), nil
}

func (c *recounting) compareReaders(t *target, again []seenAgain) {
	same := true
	for p, s := range t.scanned {
		a := again[p]
		if a.rows == s.emitted && a.sum == t.sums[p] && a.backwards == 0 {
			continue
		}
		same = false
		n := max(a.rows-s.emitted, s.emitted-a.rows, a.backwards, 1)
		c.r.found(&t.res, n, Finding{Kind: Unread, Topic: t.topic, Partition: int32(p), Offset: s.last,
			Why: fmt.Sprintf("a read_committed consumer got %d rows, following the control records gives %d; it went back %d times", a.rows, s.emitted, a.backwards)})
	}
	if same {
		c.r.checked("%s: a read_committed consumer sees the same rows at the same offsets", t.topic)
	}
}

func (o *Options) sinkFrom(topic string, partition int32) int64 {
	at, _ := o.SinkFrom.at(topic, partition)
	return at
}
