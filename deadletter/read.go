package deadletter

import (
	"context"
	"errors"

	"etl/config/kafka"
	"etl/source"
	sourcekafka "etl/source/kafka"
	"etl/stream"
)

// Found is a letter and where it lies in the topic of dead letters.
type Found struct {
	stream.Letter
	Sink      string
	Partition int32 // in the topic of dead letters
	Offset    int64
}

// Read gives every letter of a topic that can be read now to f, partition by
// partition in order. The letter is good until f returns. It returns the number of
// records that are no letters.
func Read(ctx context.Context, w stream.World, from kafka.Letters, f func(*Found) error) (others int64, err error) {
	cfg := sourcekafka.Config{Cluster: from.Conn, Topics: []string{from.Topic}, End: sourcekafka.Latest}.WithDefaults()
	if err := errors.Join(cfg.Problems()...); err != nil {
		return 0, err
	}
	env := stream.Env{World: w, Job: "dlq", UID: stream.UID(from.Sink), Parallelism: 1, Counters: &stream.Counters{}}
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
			n, err := each(el, from.Sink, f)
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
		if err := f(&Found{Letter: l, Sink: sink, Partition: r.Partition, Offset: r.Offset}); err != nil {
			return others, err
		}
	}
	return others, nil
}
