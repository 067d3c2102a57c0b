package kafka

import (
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkaconn"
	"etl/sink"
	"etl/sink/kafkatxn"
	"etl/stream"
)

// encode turns b into records ready to be produced, in order, and takes over the
// reference to b. Bad rows are rejected. The result is good until the next call.
func (w *Writer) encode(b *stream.Batch, out sink.Output) []*kgo.Record {
	recs := w.scratch[:0]
	fetched, _ := b.Origin().(*kafkaconn.Fetched)
	if fetched != nil && !fetched.Claim(&w.taker) {
		fetched = nil // another sink produces the fetched records themselves
	}
	var s *slab
	var row Row
	c := kafkatxn.Checker{Limits: &w.factory.limits, Topics: w.cfg.Topics, Now: w.env.Clock.Now()}
	for i := range b.Records {
		r := &b.Records[i]
		row = Row{Topic: w.cfg.Topics[0], Key: r.Key, Value: r.Value, Headers: r.Headers, Partition: ByKey}
		if w.cfg.Encode != nil {
			if err := w.cfg.Encode(r, b, &row); err != nil {
				out.Reject(*r, err)
				continue
			}
		}
		k := fetchedRecord(fetched, r, &row)
		if k == nil {
			if s == nil {
				s = newSlab(b, len(b.Records)-i)
			}
			k = s.next()
			k.Key, k.Value, k.Headers = row.Key, row.Value, kafkaconn.KafkaHeaders(row.Headers)
		}
		k.Topic, k.Partition, k.Timestamp = row.Topic, row.Partition, time.UnixMilli(r.Timestamp)
		if err := c.Check(k, r); err != nil {
			out.Reject(*r, err)
			drop(k, s)
			continue
		}
		recs = append(recs, k)
	}
	if s == nil || s.left == 0 {
		if s != nil {
			s.free()
		} else {
			b.Release()
		}
	}
	w.scratch = recs
	return recs
}

// fetchedRecord returns the very record that r was fetched as, when the row is nothing
// else; nil otherwise.
func fetchedRecord(f *kafkaconn.Fetched, r *stream.Record, row *Row) *kgo.Record {
	if f == nil || r.Pos < 0 || int(r.Pos) >= len(f.Records) {
		return nil
	}
	k := f.Records[r.Pos]
	if k == nil || !same(k.Key, row.Key) || !same(k.Value, row.Value) || !same(kafkaconn.StreamHeaders(k.Headers), row.Headers) {
		return nil
	}
	return f.Take(r.Pos)
}

// same reports whether two slices are the same memory, or both null.
func same[T any](a, b []T) bool {
	return len(a) == len(b) && unsafe.SliceData(a) == unsafe.SliceData(b)
}

// drop gives back a record that is not produced after all.
func drop(k *kgo.Record, s *slab) {
	if s != nil && k.Context == s {
		s.drop()
		return
	}
	k.Recycle()
}
