package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"etl/checkpoint"
	"etl/stream"
)

// refused checks that an error has the class and code and names all the facts.
func refused(t *testing.T, err error, class stream.Class, code string, facts ...string) {
	t.Helper()
	if stream.ClassOf(err) != class || stream.CodeOf(err) != code {
		t.Errorf("got %s %s: %v; want %s %s", stream.ClassOf(err), stream.CodeOf(err), err, class, code)
		return
	}
	for _, f := range facts {
		if !strings.Contains(err.Error(), f) {
			t.Errorf("%q does not name %q", err, f)
		}
	}
}

// failing polls until an error comes.
func (b *broker) failing(r *Reader) error {
	b.t.Helper()
	ctx := b.ctx()
	for {
		el, err := r.Poll(ctx)
		if batch, ok := el.(*stream.Batch); ok {
			batch.Release()
		}
		if err != nil {
			return err
		}
	}
}

// TestStartLatest: a partition that was empty at the first start is not new at the
// next one, and what was written meanwhile is read (S12).
func TestStartLatest(t *testing.T) {
	onBoth(t, func(b *broker) {
		topic := b.topic(2)
		b.produce(topic, 0, "old0", "old1")
		c := b.config(topic, from(Latest))
		first := b.splits(c, nil)
		if len(first) != 2 || first[0].NextOffset != 2 || first[1].NextOffset != 0 {
			t.Fatalf("a fresh start at latest: %v", first)
		}
		b.produce(topic, 0, "new0")
		b.produce(topic, 1, "new1") // the partition that was empty
		again := b.splits(c, first)
		if len(again) != 2 {
			t.Fatalf("a restart found %v", again)
		}
		r := b.reader(c, again)
		records, _ := b.read(r, atLeast(2))
		if v := values(b.t, records); v[0][0] != "new0" || v[1][0] != "new1" || len(records) != 2 {
			b.t.Errorf("read %v", v)
		}
	})
}

// TestAddedPartitions are read from their beginning although start is latest, at
// run time and after a restart (S11).
func TestAddedPartitions(t *testing.T) {
	onBoth(t, func(b *broker) {
		topic := b.topic(1)
		b.produce(topic, 0, "old")
		c := b.config(topic, from(Latest))
		e := b.enumerator(c)
		known, err := e.Discover(b.ctx(), nil)
		if err != nil {
			t.Fatal(err)
		}
		r := b.reader(c, known)
		b.grow(topic, 2)
		b.produce(topic, 1, "early0", "early1")
		b.eventually("the added partition", func() bool {
			add, err := e.Discover(b.ctx(), known)
			if err != nil && stream.ClassOf(err) != stream.Retry {
				t.Fatal(err)
			}
			if len(add) == 0 {
				return false
			}
			known = append(known, add...)
			return r.Assign(add) == nil
		})
		records, _ := b.read(r, atLeast(2))
		if v := values(b.t, records); fmt.Sprint(v[1]) != "[early0 early1]" {
			b.t.Errorf("read %v", v)
		}
		if err := r.Assign(known); err == nil {
			t.Error("a split was assigned twice")
		}
		before := r.Splits()
		b.grow(topic, 3)
		b.produce(topic, 2, "down0")
		after := b.splits(c, before)
		if len(after) != 3 || after[2].NextOffset != 0 || after[2].End != stream.Unbounded || after[0].TopicID != after[2].TopicID {
			b.t.Errorf("after the restart: %v", after)
		}
		add, err := b.discover(b.config(topic, until(Latest)), withEnds(before))
		if err != nil || len(add) != 0 {
			b.t.Errorf("a bounded source took up %v, %v", add, err)
		}
	})
}

func withEnds(splits []stream.Split) (out []stream.Split) {
	for _, s := range splits {
		s.End = s.NextOffset + 1
		out = append(out, s)
	}
	return out
}

func (b *broker) grow(topic string, partitions int) {
	b.t.Helper()
	b.unfenced("more partitions", func() error {
		r, err := b.adm.UpdatePartitions(b.ctx(), partitions, topic)
		return errors.Join(err, r.Error())
	})
	b.eventually("leaders of more partitions", func() bool {
		ends, err := b.adm.ListEndOffsets(b.ctx(), topic)
		return err == nil && ends.Error() == nil && len(ends[topic]) == partitions
	})
}

// TestExactOffsets: a start and an end given by number.
func TestExactOffsets(t *testing.T) {
	onBoth(t, func(b *broker) {
		topic := b.topic(2)
		b.produce(topic, 0, "a0", "a1", "a2", "a3")
		b.produce(topic, 1, "b0", "b1")
		at := func(a, b int64) Offsets { return Offsets{topic: {0: a, 1: b}} }
		c := b.config(topic, starts(at(1, 2)), ends(at(3, 2)))
		records, _ := b.drain(c, b.splits(c, nil))
		if v := values(b.t, records); fmt.Sprint(v) != "map[0:[a1 a2]]" {
			b.t.Errorf("read %v", v)
		}
		_, err := b.discover(b.config(topic, starts(at(5, 0))), nil)
		refused(b.t, err, stream.BadConfig, "source.start", topic+"/0", "offset 5", "[0,4)")
		_, err = b.discover(b.config(topic, starts(Offsets{topic: {0: 1}})), nil)
		refused(b.t, err, stream.BadConfig, "source.start", topic+"/1", "no offset is given")
		_, err = b.discover(b.config(topic, ends(Offsets{topic: {0: 1, 1: 1, 7: 1}})), nil)
		refused(b.t, err, stream.BadConfig, "source.end", topic+"/7", "2 partitions")
	})
}

// TestEndAhead: an end that lies ahead of the log is waited for.
func TestEndAhead(t *testing.T) {
	b := newFake(t)
	topic := b.topic(1)
	c := b.config(topic, ends(Offsets{topic: {0: 2}}))
	r := b.reader(c, b.splits(c, nil))
	b.produce(topic, 0, "a", "b", "beyond")
	records, ended := b.read(r, all)
	if !ended || len(records) != 2 || r.Splits()[0].NextOffset != 2 {
		t.Errorf("read %v, ended %v at %v", records, ended, r.Splits())
	}
}

// TestEndsAtOnce: a source without anything to read, or without splits, or whose
// restored splits are at their ends, is finished, and says so once (S02).
func TestEndsAtOnce(t *testing.T) {
	onBoth(t, func(b *broker) {
		topic := b.topic(2)
		c := b.config(topic, until(Latest))
		splits := b.splits(c, nil)
		for _, share := range [][]stream.Split{splits, b.splits(c, splits), nil} {
			r := b.reader(c, share)
			if records, ended := b.read(r, all); !ended || len(records) != 0 {
				b.t.Errorf("%v: read %v, ended %v", share, records, ended)
			}
			ctx, cancel := context.WithTimeout(b.ctx(), 50*time.Millisecond)
			if el, err := r.Poll(ctx); el != nil || !errors.Is(err, context.DeadlineExceeded) {
				b.t.Errorf("after the end, Poll returned %v, %v", el, err)
			}
			cancel()
		}
	})
}

// TestExpiredPosition: what was deleted before it was read is loss with a range,
// found at the restart and at run time (S05, I14).
func TestExpiredPosition(t *testing.T) {
	onBoth(t, func(b *broker) {
		topic := b.topic(1)
		b.produce(topic, 0, "a", "b", "c", "d")
		c := b.config(topic, batches(1))
		known := b.splits(c, nil)
		if _, err := b.adm.DeleteRecords(b.ctx(), kadm.Offsets{topic: {0: {Topic: topic, At: 3}}}); err != nil {
			t.Fatal(err)
		}
		_, err := b.discover(c, known)
		refused(b.t, err, stream.RestoreRefused, "source.position_expired", topic+"/0@0", "begins at 3", "[0,3)")
		refused(b.t, b.failing(b.reader(c, known)), stream.DataLoss, "source.out_of_range", topic+"/0@0", "begins at 3", "[0,3)")
		known[0].NextOffset = 3
		if _, err := b.discover(c, known); err != nil {
			b.t.Errorf("a position at the very beginning: %v", err)
		}
	})
}

// TestPositionBeyondTheEnd: a log that is shorter than what was read.
func TestPositionBeyondTheEnd(t *testing.T) {
	t.Parallel() // it waits a lot
	onBoth(t, func(b *broker) {
		topic := b.topic(1)
		b.produce(topic, 0, "a")
		c := b.config(topic)
		known := b.splits(c, nil)
		known[0].NextOffset = 3
		_, err := b.discover(c, known)
		refused(b.t, err, stream.RestoreRefused, "source.log_truncated", topic+"/0@3", "[1,3)")
		refused(b.t, b.failing(b.reader(c, known)), stream.DataLoss, "source.out_of_range", "ends at 1")
	})
}

// TestRecreatedTopic: another topic under the same name (KIP-516).
func TestRecreatedTopic(t *testing.T) {
	t.Parallel() // it waits a lot
	onBoth(t, func(b *broker) {
		topic := b.topic(1)
		b.produce(topic, 0, "a", "b")
		c := b.config(topic)
		e := b.enumerator(c)
		known, err := e.Discover(b.ctx(), nil)
		if err != nil {
			t.Fatal(err)
		}
		r := b.reader(c, known)
		b.read(r, atLeast(2))
		if _, err := b.adm.DeleteTopic(b.ctx(), topic); err != nil {
			t.Fatal(err)
		}
		b.eventually("the topic to be gone", func() bool {
			l, err := b.adm.ListTopics(b.ctx(), topic)
			return err == nil && l.Error() != nil
		})
		b.eventually("the running enumerator to miss it", func() bool {
			_, err := e.Discover(b.ctx(), r.Splits())
			return stream.CodeOf(err) == "kafka.topic_missing" && stream.ClassOf(err) == stream.Retry
		})
		b.create(topic, 1)
		b.produce(topic, 0, "x", "y", "z")

		was := hexID(known[0].TopicID)
		_, err = b.discover(c, r.Splits())
		refused(b.t, err, stream.RestoreRefused, "source.topic_recreated", was, "from offset 2")
		b.eventually("the running enumerator to notice", func() bool {
			_, err := e.Discover(b.ctx(), r.Splits())
			return stream.CodeOf(err) == "source.topic_recreated" && stream.ClassOf(err) == stream.DataLoss
		})
		refused(b.t, b.failing(r), stream.DataLoss, "source.topic_recreated", was, "from offset 2")
	})
}

// TestContradictions: what the checkpoint holds and the configuration denies.
func TestContradictions(t *testing.T) {
	t.Parallel() // it waits a lot
	b := newFake(t)
	one, two := b.topic(2), b.topic(1)
	b.produce(one, 0, "a")
	c := b.config(one)
	known := b.splits(c, nil)

	_, err := b.discover(b.config(two), known)
	refused(t, err, stream.RestoreRefused, "source.topic_not_listed", one+"/0", one+"/1")
	_, err = b.discover(b.config(one, until(Latest)), known)
	refused(t, err, stream.RestoreRefused, "source.end_changed", one+"/0")
	_, err = b.discover(c, withEnds(known))
	refused(t, err, stream.RestoreRefused, "source.end_changed", "offset 1")
	more := append(known, stream.Split{Topic: one, TopicID: known[0].TopicID, Partition: 7, LeaderEpoch: -1, End: stream.Unbounded})
	_, err = b.discover(c, more)
	refused(t, err, stream.RestoreRefused, "source.partitions_shrunk", one+"/7", "2 partitions")

	both := c
	both.Topics = []string{one, two}
	add, err := b.discover(both, known)
	if err != nil || len(add) != 1 || add[0].Topic != two {
		t.Errorf("a topic that was added to the list: %v, %v", add, err)
	}
	_, err = b.discover(b.config("nosuchtopic"), nil)
	refused(t, err, stream.Environment, "kafka.topic_missing", "nosuchtopic")
}

// TestReport: the group's offsets count markers, so that lag becomes 0 (S03).
func TestReport(t *testing.T) {
	onBoth(t, func(b *broker) {
		topic := b.topic(2)
		x := b.producer("x")
		b.txn(x, true, topic, 2, "a", "b")
		b.txn(x, false, topic, 2, "c", "d")
		end := b.stable(topic)
		name := "lag-of-" + topic
		c := b.config(topic, group(name))
		e := b.enumerator(c)
		splits, err := e.Discover(b.ctx(), nil)
		if err != nil {
			t.Fatal(err)
		}
		r := b.reader(c, splits)
		b.read(r, atLeast(2))
		b.eventually("the markers to be read", func() bool {
			r.Wake()
			if _, err := r.Poll(b.ctx()); err != nil {
				t.Fatal(err)
			}
			s := r.Splits()
			return s[0].NextOffset == end[0] && s[1].NextOffset == end[1]
		})
		if err := e.Report(b.ctx(), checkpoint.Permit{}, r.Splits()); err != nil {
			t.Fatal(err)
		}
		os, err := b.adm.FetchOffsets(b.ctx(), name)
		if err != nil {
			t.Fatal(err)
		}
		for p, want := range end {
			if o, ok := os.Lookup(topic, p); !ok || o.At != want {
				b.t.Errorf("partition %d: the group is at %d, the end is %d", p, o.At, want)
			}
		}
	})
}
