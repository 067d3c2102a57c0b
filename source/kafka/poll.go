package kafka

import (
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/fault"
	"etl/internal/kafkaconn"
	"etl/stream"
)

// Poll is step R1: it returns a batch of one partition, EndOfInput once when all
// splits are at their ends, or nil after Wake when nothing has been fetched yet.
func (r *Reader) Poll(ctx context.Context) (stream.Element, error) {
	if !r.polled {
		r.polled = true
		fault.Point("source.first_poll")
	}
	for {
		if err := r.heed(); err != nil {
			return nil, err
		}
		if b, err := r.next(); b != nil {
			return b, nil
		} else if err != nil {
			return nil, err
		}
		if !r.ended && r.finished() {
			r.ended = true
			return stream.EndOfInput{}, nil
		}
		got, err := r.fetch(ctx)
		if err != nil || !got {
			return nil, err
		}
	}
}

// fetch waits for the client to have records, for Wake, or for ctx.
func (r *Reader) fetch(ctx context.Context) (got bool, err error) {
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	r.mu.Lock()
	if r.woken {
		cancel()
	}
	r.cancel, r.asked = cancel, r.env.Clock.Now()
	r.mu.Unlock()
	var fs kgo.Fetches
	switch {
	case r.cl == nil:
		<-wait.Done()
	case wait.Err() != nil:
		//lint:ignore SA1012 for kgo, nil means what is there, without waiting
		fs = r.cl.PollFetches(nil)
	default:
		fs = r.cl.PollFetches(wait)
	}
	r.mu.Lock()
	r.cancel, r.woken, r.asked = nil, false, r.env.Clock.Now()
	r.mu.Unlock()
	if err := r.take(fs); err != nil {
		return false, err
	}
	if len(r.queue) == 0 && ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return len(r.queue) > 0, nil
}

// take queues what was fetched. Errors come first: after one of them no record of
// the same answer may be used.
func (r *Reader) take(fs kgo.Fetches) error {
	var first error
	fs.EachError(func(topic string, partition int32, err error) {
		interrupted := topic == "" && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
		if first == nil && !interrupted {
			first = r.explain(tp{topic, partition}, err)
		}
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	fs.EachPartition(func(f kgo.FetchTopicPartition) {
		p := r.parts[tp{f.Topic, f.Partition}]
		if p == nil {
			return
		}
		if f.Err == nil {
			p.end = f.LastStableOffset
			if r.cfg.Isolation == ReadUncommitted || p.end < 0 {
				p.end = f.HighWatermark
			}
		}
		switch {
		case first != nil:
			recycle(f.Records)
		case len(f.Records) > 0:
			p.queued = true
			r.queue = append(r.queue, run{p, f.Records})
		}
	})
	return first
}

// next returns a batch of what waits, nil when nothing does.
func (r *Reader) next() (b *stream.Batch, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) > 0 && b == nil && err == nil {
		q := &r.queue[0]
		n := min(len(q.records), r.cfg.BatchRecords)
		b, err = r.batch(q.part, q.records[:n:n])
		q.records = q.records[n:]
		if len(q.records) == 0 {
			q.part.queued = false
			q.part = nil
			r.queue = r.queue[1:]
		}
	}
	return b, err
}

// free gives fetched records back at the last release of their batch.
func free(b *stream.Batch) { b.Origin().(*kafkaconn.Fetched).Recycle() }

// batch makes a batch of fetched records and moves the position of their split
// past them. It returns nil when none of them is for the job.
func (r *Reader) batch(p *part, fetched []*kgo.Record) (*stream.Batch, error) {
	s := &p.split
	origin := kafkaconn.NewFetched(fetched)
	b := stream.NewOriginBatch(r.env.Schema, origin, free)
	b.Records = slices.Grow(b.Records[:0], len(fetched))[:len(fetched)]
	n, over := 0, false
	for i, rec := range fetched {
		if rec.Offset < s.NextOffset && !over {
			err := stream.Errorf(stream.Restart, "source.offset_backwards", "read", s.String(), "the client returned offset %d again", rec.Offset)
			b.Records, origin.Records = b.Records[:n], slices.Concat(fetched[:n], fetched[i:])
			b.Release()
			return nil, err
		}
		if over = over || s.End != stream.Unbounded && rec.Offset >= s.End; over {
			s.NextOffset = s.End
			rec.Recycle()
			continue
		}
		s.NextOffset, s.LeaderEpoch = rec.Offset+1, rec.LeaderEpoch
		if rec.Attrs.IsControl() {
			rec.Recycle()
			continue
		}
		fill(&b.Records[n], rec, int32(n))
		p.stamp = b.Records[n].Timestamp
		fetched[n] = rec
		n++
	}
	b.Records, origin.Records = b.Records[:n], fetched[:n]
	r.pause(s)
	if n == 0 {
		b.Release()
		return nil, nil
	}
	return b, nil
}

// fill makes an engine's record of a fetched one, sharing its bytes.
func fill(to *stream.Record, rec *kgo.Record, pos int32) {
	*to = stream.Record{
		Key: rec.Key, Value: rec.Value,
		Timestamp: rec.Timestamp.UnixMilli(),
		Topic:     rec.Topic, Partition: rec.Partition, Offset: rec.Offset,
		Pos: pos,
	}
	if rec.Headers != nil {
		to.Headers = kafkaconn.StreamHeaders(rec.Headers)
	}
}

// pause stops fetching a split that has been read to its end.
func (r *Reader) pause(s *stream.Split) {
	if s.Finished() {
		r.cl.PauseFetchPartitions(map[string][]int32{s.Topic: {s.Partition}})
	}
}

// heed does what the watcher found: it moves positions over what is empty.
func (r *Reader) heed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.holes {
		p := r.parts[h.tp]
		if s := &p.split; s.NextOffset == h.from && !p.queued {
			s.NextOffset, s.LeaderEpoch = h.to, h.epoch
			if s.End != stream.Unbounded {
				s.NextOffset = min(s.NextOffset, s.End)
			}
			r.pause(s)
		}
	}
	r.holes = nil
	return r.failed
}
