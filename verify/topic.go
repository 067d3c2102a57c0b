package verify

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkaconn"
	"etl/stream"
)

// PartitionState says what a reading of a partition came across.
type PartitionState struct {
	Partition          int32
	Start, Stable, End int64 // of the log, and its last stable offset
	Visible, Aborted   int64 // records
	// Hidden records stand behind the last stable offset and are not aborted.
	Hidden int64
	// Control records and offsets that hold nothing.
	Control, Holes int64
}

// ReadTopic calls emit with every record of a topic that read_committed readers can
// see, partition by partition, in the order of offsets. It follows the control
// records itself; see the package comment.
func ReadTopic(ctx context.Context, conn kafkaconn.Config, topic string, emit func(*kgo.Record) error) ([]PartitionState, error) {
	c, err := dial(conn, stream.SystemClock{})
	if err != nil {
		return nil, err
	}
	defer c.close()
	bs, err := c.measure(ctx, topic)
	if err != nil {
		return nil, err
	}
	var out []PartitionState
	for p, b := range bs {
		s := scan{c: c, topic: topic, partition: int32(p), from: b.start, to: b, emit: emit}
		done, err := s.run(ctx)
		if err != nil {
			return out, err
		}
		out = append(out, PartitionState{Partition: int32(p), Start: b.start, Stable: b.stable, End: b.end, Visible: done.emitted,
			Aborted: done.aborted, Hidden: done.hidden, Control: done.control, Holes: done.holes})
	}
	return out, nil
}

// Hanging returns the partitions of topics whose last stable offset stands before
// their end. After a job has ended there must be none: what is open then stays open
// until its timeout, or for ever.
func Hanging(ctx context.Context, conn kafkaconn.Config, topics ...string) (out []Open, err error) {
	c, err := dial(conn, stream.SystemClock{})
	if err != nil {
		return nil, err
	}
	defer c.close()
	for _, topic := range topics {
		bs, err := c.measure(ctx, topic)
		if err != nil {
			return nil, err
		}
		for p, b := range bs {
			if b.stable < b.end {
				out = append(out, Open{Topic: topic, Partition: int32(p), Stable: b.stable, End: b.end, Producers: c.producers(ctx, topic, int32(p))})
			}
		}
	}
	return out, nil
}

// String returns the finding on one line.
func (o Open) String() string {
	return fmt.Sprintf("%s: last stable offset %d of %d %v", partitionName(o.Topic, o.Partition), o.Stable, o.End, o.Producers)
}
