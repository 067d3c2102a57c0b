package kafka

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/stream"
)

// TestReadsWhatIsCommitted: transactions that commit and abort, of several
// producers, over each other and around plain records.
func TestReadsWhatIsCommitted(t *testing.T) {
	onBoth(t, func(b *broker) {
		topic := b.topic(2)
		x, y := b.producer("x"), b.producer("y")
		b.txn(x, true, topic, 2, "a0", "a1", "a2", "a3")
		b.txn(x, false, topic, 2, "LOST0", "LOST1", "LOST2")
		b.produce(topic, 0, "p0", "p1")
		if err := y.BeginTransaction(); err != nil { // stays open over x's next two
			t.Fatal(err)
		}
		b.send(y, topic, 0, "y0")
		b.send(y, topic, 1, "y1")
		b.txn(x, true, topic, 2, "b0", "b1")
		b.txn(x, false, topic, 2, "LOST3", "LOST4")
		b.send(y, topic, 0, "y2")
		if err := y.EndTransaction(b.ctx(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		b.txn(x, false, topic, 2, "LOST5", "LOST6") // the log ends with an abort marker
		end := b.stable(topic)

		c := b.config(topic, until(Latest))
		records, splits := b.drain(c, b.splits(c, nil))
		want := map[int32][]string{0: {"a0", "a2", "p0", "p1", "y0", "b0", "y2"}, 1: {"a1", "a3", "y1", "b1"}}
		if got := values(b.t, records); !reflect.DeepEqual(got, want) {
			b.t.Errorf("read %v, want %v", got, want)
		}
		for _, s := range splits {
			if s.NextOffset != end[s.Partition] || s.End != end[s.Partition] || !s.Finished() {
				b.t.Errorf("%s ends at %d, the log at %d", &s, s.End, end[s.Partition])
			}
		}
		b.uncommitted(topic)
	})
}

// uncommitted: the other isolation level sees what was aborted.
func (b *broker) uncommitted(topic string) {
	c := b.config(topic, until(Latest), func(c *Config) { c.Isolation = ReadUncommitted })
	records, _ := b.drain(c, b.splits(c, nil))
	lost := 0
	for _, g := range records {
		if len(g.value) > 4 && g.value[:4] == "LOST" {
			lost++
		}
	}
	if len(records) != 18 || lost != 7 {
		b.t.Errorf("read_uncommitted read %d records, %d of them aborted", len(records), lost)
	}
}

// TestOpenTransactionBoundsTheEnd: a bounded read ends before what is undecided.
func TestOpenTransactionBoundsTheEnd(t *testing.T) {
	onBoth(t, func(b *broker) {
		topic := b.topic(1)
		b.produce(topic, 0, "before")
		x := b.producer("x")
		if err := x.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		b.send(x, topic, 0, "undecided")
		b.produce(topic, 0, "after")
		c := b.config(topic, until(Latest))
		records, splits := b.drain(c, b.splits(c, nil))
		if len(records) != 1 || splits[0].NextOffset != 1 {
			b.t.Errorf("read %v up to %d", records, splits[0].NextOffset)
		}
		if err := x.EndTransaction(b.ctx(), kgo.TryAbort); err != nil {
			t.Fatal(err)
		}
	})
}

// TestRestoreAtEveryOffset: wherever a reader stops, the next one goes on without
// a gap and without a repetition (S21).
func TestRestoreAtEveryOffset(t *testing.T) {
	onBoth(t, func(b *broker) {
		topic := b.topic(2)
		x := b.producer("x")
		var want []string
		for i := range 7 {
			v := []string{fmt.Sprint("t", i, "a"), fmt.Sprint("t", i, "b"), fmt.Sprint("t", i, "c")}
			b.txn(x, i%3 != 1, topic, 2, v...)
			b.produce(topic, int32(i%2), fmt.Sprint("p", i))
			if i%3 != 1 {
				want = append(want, v...)
			}
			want = append(want, fmt.Sprint("p", i))
		}
		b.stable(topic)
		slices.Sort(want)
		c := b.config(topic, until(Latest), batches(1))
		first := b.splits(c, nil)
		for stop := 0; stop <= len(want); stop++ {
			r := b.reader(c, first)
			before, _ := b.read(r, atLeast(stop))
			middle := r.Splits()
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			after, _ := b.drain(c, b.splits(c, middle))
			var seen []string
			for _, g := range append(before, after...) {
				seen = append(seen, g.value)
			}
			slices.Sort(seen)
			if !slices.Equal(seen, want) {
				b.t.Fatalf("stopped after %d: %v", stop, seen)
			}
			values(b.t, append(before, after...))
		}
		b.t.Logf("stopped at %d places", len(want)+1)
	})
}

// TestPassesRecordsAsTheyAre: null and empty, headers in order with repetitions
// and nulls, times at the edges (R03, R06).
func TestPassesRecordsAsTheyAre(t *testing.T) {
	onBoth(t, func(b *broker) {
		topic := b.topic(1)
		sent := []*kgo.Record{
			{Key: nil, Value: nil},
			{Key: []byte{}, Value: []byte{}},
			{Key: []byte("k"), Value: []byte("v"), Timestamp: time.UnixMilli(0)},
			{Value: []byte("-1"), Timestamp: time.UnixMilli(-1)},
			{Value: []byte("ms"), Timestamp: time.UnixMilli(1764446400123)},
			{Value: []byte("h"), Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "b", Value: nil}, {Key: "a", Value: []byte{}}, {Key: "", Value: []byte("2")}}},
		}
		for _, r := range sent {
			r.Topic = topic
			if err := b.client().ProduceSync(b.ctx(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		c := b.config(topic, until(Latest))
		r := b.reader(c, b.splits(c, nil))
		n := 0
		for n < len(sent) {
			el, err := r.Poll(b.ctx())
			if err != nil {
				t.Fatal(err)
			}
			batch, ok := el.(*stream.Batch)
			if !ok {
				continue
			}
			for i := range batch.Records {
				same(b.t, n, sent[n], &batch.Records[i])
				n++
			}
			batch.Release()
		}
	})
}

func same(t *testing.T, n int, sent *kgo.Record, got *stream.Record) {
	t.Helper()
	null := func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
	ok := null(sent.Key, got.Key) && null(sent.Value, got.Value) && len(sent.Headers) == len(got.Headers) && sent.Timestamp.UnixMilli() == got.Timestamp
	for i := range min(len(sent.Headers), len(got.Headers)) {
		ok = ok && sent.Headers[i].Key == got.Headers[i].Key && null(sent.Headers[i].Value, got.Headers[i].Value)
	}
	if !ok || got.Offset != int64(n) {
		t.Errorf("record %d: sent %v, got %v", n, sent, got)
	}
}

// TestBatches: batches are bounded, hold one partition, and Wake interrupts.
func TestBatches(t *testing.T) {
	onBoth(t, func(b *broker) {
		topic := b.topic(3)
		var rs []*kgo.Record
		for i := range 3000 {
			rs = append(rs, &kgo.Record{Topic: topic, Partition: int32(i % 3), Value: fmt.Append(nil, i)})
		}
		if err := b.client().ProduceSync(b.ctx(), rs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		c := b.config(topic, batches(100))
		r := b.reader(c, b.splits(c, nil))
		n := 0
		for n < 3000 {
			el, err := r.Poll(b.ctx())
			if err != nil {
				t.Fatal(err)
			}
			if batch, ok := el.(*stream.Batch); ok {
				if len(batch.Records) > 100 {
					b.t.Fatalf("a batch of %d", len(batch.Records))
				}
				n += len(b.look(batch))
				batch.Release()
			}
		}
		r.Wake() // before a Poll
		if el, err := r.Poll(b.ctx()); el != nil || err != nil {
			b.t.Errorf("a woken Poll returned %v, %v", el, err)
		}
		time.AfterFunc(50*time.Millisecond, r.Wake) // during one
		if el, err := r.Poll(b.ctx()); el != nil || err != nil {
			b.t.Errorf("an interrupted Poll returned %v, %v", el, err)
		}
		ctx, cancel := context.WithCancelCause(b.ctx())
		cancel(context.DeadlineExceeded)
		if el, err := r.Poll(ctx); el != nil || err != context.DeadlineExceeded {
			b.t.Errorf("a cancelled Poll returned %v, %v", el, err)
		}
		for _, l := range r.Lag() {
			if l.NextOffset != 1000 || l.End != 1000 || l.Records != 0 {
				b.t.Errorf("lag %v", l)
			}
		}
	})
}

// TestWakeGivesWhatIsThere: a task that only looks between two pieces of other
// work (Wake, then Poll) still gets its records.
func TestWakeGivesWhatIsThere(t *testing.T) {
	b := newFake(t)
	topic := b.topic(1)
	b.produce(topic, 0, "a", "b", "c")
	c := b.config(topic, batches(1))
	r := b.reader(c, b.splits(c, nil))
	var seen int
	b.eventually("three records without waiting", func() bool {
		r.Wake()
		el, err := r.Poll(b.ctx())
		if err != nil {
			t.Fatal(err)
		}
		if batch, ok := el.(*stream.Batch); ok {
			seen += len(batch.Records)
			batch.Release()
		}
		return seen == 3
	})
}
