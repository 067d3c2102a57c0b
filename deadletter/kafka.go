package deadletter

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"

	"etl/config/kafka"
	"etl/internal/kafkaconn"
	"etl/source"
	sourcekafka "etl/source/kafka"
	"etl/stream"
)

// Kafka are the letters of a topic, as records.
type Kafka struct{ From kafka.Letters }

var _ Letters = Kafka{}

// Sink returns the sink's name.
func (k Kafka) Sink() string { return k.From.Sink }

// Place returns the topic.
func (k Kafka) Place() string { return k.From.Topic }

// Form returns that of offsets.
func (Kafka) Form() Form { return Form{"PARTITION@OFFSET", `^\d+@\d+$`} }

// Records returns nil: a letter in a topic is the record.
func (Kafka) Records() error { return nil }

func (k Kafka) prefix() string { return k.From.Prefix }

// Read reads partition by partition in order.
func (k Kafka) Read(ctx context.Context, w stream.World, f func(*Found) error) (others int64, err error) {
	cfg := sourcekafka.Config{Cluster: k.From.Conn, Topics: []string{k.From.Topic}, End: sourcekafka.Latest}.WithDefaults()
	if err := errors.Join(cfg.Problems()...); err != nil {
		return 0, err
	}
	env := stream.Env{World: w, Job: "dlq", UID: stream.UID(k.From.Sink), Parallelism: 1, Counters: &stream.Counters{}}
	e := sourcekafka.NewEnumerator(cfg)
	defer func() { err = errors.Join(err, e.Close()) }()
	if err := e.Open(ctx, env); err != nil {
		return 0, err
	}
	splits, err := e.Discover(ctx, nil)
	if err != nil {
		return 0, err
	}
	r := sourcekafka.NewReader(cfg)
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := r.Open(ctx, source.Env{Env: env, Schema: stream.LetterSchema}, splits); err != nil {
		return 0, err
	}
	for {
		el, err := r.Poll(ctx)
		if err != nil {
			return others, err
		}
		switch el := el.(type) {
		case stream.EndOfInput:
			return others, nil
		case *stream.Batch:
			n, err := each(el, k.From.Sink, f)
			if others += n; err != nil {
				return others, err
			}
		}
	}
}

// each gives the letters of a batch to f, and releases it.
func each(b *stream.Batch, sink string, f func(*Found) error) (others int64, err error) {
	defer b.Release()
	for i := range b.Records {
		r := &b.Records[i]
		l, ok := stream.OpenLetter(r)
		if !ok {
			others++
			continue
		}
		if err := f(&Found{Letter: l, Sink: sink, At: fmt.Sprintf("%d@%d", r.Partition, r.Offset), Partition: r.Partition, Offset: r.Offset}); err != nil {
			return others, err
		}
	}
	return others, nil
}

// source reads the topic behind the offsets at which the job before ended.
func (k Kafka) source(ctx context.Context, to *reading) (source.Connector, error) {
	src := sourcekafka.Config{Cluster: k.From.Conn, Topics: []string{k.From.Topic}, End: sourcekafka.Latest}
	if len(to.ended) > 0 {
		var err error
		src.Start = sourcekafka.Exact
		if src.StartOffsets, err = k.behind(ctx, to); err != nil {
			return nil, err
		}
	}
	return sourcekafka.New(src.WithDefaults()), nil
}

// behind says where the letters begin that no job before has read: partitions that are
// new, or whose oldest letters have been deleted since, at their beginning.
func (k Kafka) behind(ctx context.Context, to *reading) (sourcekafka.Offsets, error) {
	conn := k.From.Conn
	if conn.Dial == nil {
		conn.Dial = to.world.Dial
	}
	cl, err := conn.NewClient()
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	starts, err := kadm.NewClient(cl).ListStartOffsets(ctx, k.From.Topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, kafkaconn.Explain(err, "find the oldest letters", kafkaconn.Access{Kind: kafkaconn.Topic, Name: k.From.Topic, Operation: "DESCRIBE"})
	}
	out := map[int32]int64{}
	starts.Each(func(o kadm.ListedOffset) { out[o.Partition] = o.Offset })
	for i := range to.ended {
		if from, ok := out[to.ended[i].Partition]; ok {
			out[to.ended[i].Partition] = max(from, to.ended[i].NextOffset)
		}
	}
	return sourcekafka.Offsets{k.From.Topic: out}, nil
}
