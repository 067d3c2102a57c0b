package kafka

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"etl/internal/kafkatest"
	"etl/stream"
)

// emptyBatch returns a record batch that compaction has emptied: no records, and
// still the offsets [first, first+n) (KAFKA-5443).
func emptyBatch(first int64, n int32, epoch int32) []byte {
	b := kmsg.RecordBatch{FirstOffset: first, PartitionLeaderEpoch: epoch, Magic: 2, LastOffsetDelta: n - 1, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// answerFetches makes the in-process broker answer every fetch from offset on with
// bytes, and with a log that ends at end.
func (b *broker) answerFetches(offset, end int64, bytes func(from int64) []byte) {
	b.fake.ControlKey(1, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		for _, t := range req.Topics {
			rt := kmsg.NewFetchResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				if p.FetchOffset < offset {
					return nil, nil, false
				}
				rp := kmsg.NewFetchResponseTopicPartition()
				rp.Partition, rp.HighWatermark, rp.LastStableOffset, rp.LogStartOffset = p.Partition, end, end, 0
				rp.RecordBatches = bytes(p.FetchOffset)
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		if len(resp.Topics) == 0 { // a fetch of a session, without changes
			return nil, nil, false
		}
		return resp, nil, true
	})
}

// TestEndsInAHole: a bounded read whose last records compaction has taken ends by
// position: no record tells it.
func TestEndsInAHole(t *testing.T) {
	for name, bytes := range map[string]func(from int64) []byte{
		"empty batches": func(from int64) []byte { return emptyBatch(from, int32(min(10-from, 3)), 5) },
		"nothing":       func(int64) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			b := newFake(t)
			topic := b.topic(1)
			b.produce(topic, 0, "a", "b", "c", "d")
			c := b.config(topic, ends(Offsets{topic: {0: 10}}))
			splits := b.splits(c, nil)
			b.answerFetches(4, 10, bytes)
			b.fake.ControlKey(2, func(kreq kmsg.Request) (kmsg.Response, error, bool) { return b.listed(kreq, 10) })
			records, after := b.drain(c, splits)
			if len(records) != 4 || after[0].NextOffset != 10 {
				t.Errorf("read %v up to %v", records, &after[0])
			}
			want := int32(-1) // nothing was seen that says which epoch the end belongs to
			if name == "empty batches" {
				want = 5
			}
			if after[0].LeaderEpoch != want {
				t.Errorf("the epoch is %d, want %d", after[0].LeaderEpoch, want)
			}
		})
	}
}

// listed answers a ListOffsets for all partitions with one offset.
func (b *broker) listed(kreq kmsg.Request, offset int64) (kmsg.Response, error, bool) {
	b.fake.KeepControl()
	req := kreq.(*kmsg.ListOffsetsRequest)
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition, rp.Offset = p.Partition, offset
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp, nil, true
}

// TestJudge: what an answer to a raw fetch proves, and what it does not.
func TestJudge(t *testing.T) {
	control := func(rp *kmsg.FetchResponseTopicPartition) {
		rp.RecordBatches = markerBatch(7)
	}
	for name, c := range map[string]struct {
		answer func(*kmsg.FetchResponseTopicPartition)
		to     int64
		epoch  int32
		empty  bool
	}{
		"an empty batch": {func(rp *kmsg.FetchResponseTopicPartition) { rp.RecordBatches = emptyBatch(7, 3, 4) }, 10, 4, true},
		"two empty batches": {func(rp *kmsg.FetchResponseTopicPartition) {
			rp.RecordBatches = append(emptyBatch(7, 3, 4), emptyBatch(12, 2, 6)...)
		}, 14, 6, true},
		"nothing, the log goes on": {func(*kmsg.FetchResponseTopicPartition) {}, 20, -1, true},
		"nothing, at the end":      {func(rp *kmsg.FetchResponseTopicPartition) { rp.LastStableOffset = 7 }, 7, -1, true},
		"nothing, end unknown":     {func(rp *kmsg.FetchResponseTopicPartition) { rp.LastStableOffset, rp.HighWatermark = -1, -1 }, 7, -1, true},
		"a marker":                 {control, 7, -1, false},
		"half an empty batch":      {func(rp *kmsg.FetchResponseTopicPartition) { rp.RecordBatches = emptyBatch(7, 3, 4)[:30] }, 7, -1, true},
		"a damaged batch":          {func(rp *kmsg.FetchResponseTopicPartition) { rp.RecordBatches = damaged() }, 7, -1, false},
	} {
		rp := kmsg.NewFetchResponseTopicPartition()
		rp.LastStableOffset, rp.HighWatermark = 20, 25
		c.answer(&rp)
		o := kgo.ProcessFetchPartitionOpts{KeepControlRecords: true, Offset: 7, IsolationLevel: kgo.ReadCommitted()}
		if to, epoch, empty := judge(o, &rp); to != c.to || epoch != c.epoch || empty != c.empty {
			t.Errorf("%s: got %d, epoch %d, empty %v; want %d, %d, %v", name, to, epoch, empty, c.to, c.epoch, c.empty)
		}
	}
}

func damaged() []byte {
	b := emptyBatch(7, 3, 4)
	b[40] ^= 1
	return b
}

// markerBatch is a commit marker at an offset.
func markerBatch(at int64) []byte {
	r := kmsg.Record{Key: []byte{0, 0, 0, 1}, Value: []byte{0, 0, 0, 0, 0, 0}}
	r.Length = int32(len(r.AppendTo(nil)) - 1)
	b := kmsg.RecordBatch{FirstOffset: at, Magic: 2, Attributes: 0b0011_0000, ProducerID: 9, NumRecords: 1, Records: r.AppendTo(nil)}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// TestCompactedTopic: real compaction, with an end inside what it took.
func TestCompactedTopic(t *testing.T) {
	t.Parallel() // it waits for the cleaner
	k := kafkatest.Start(t, kafkatest.Config{Properties: map[string]string{
		"log.cleaner.backoff.ms": "100", "log.cleaner.min.cleanable.ratio": "0.01", "log.cleaner.delete.retention.ms": "1",
	}})
	b := newReal(t, k)
	topic := b.topic(1, "cleanup.policy=compact", "segment.ms=200", "min.cleanable.dirty.ratio=0.01", "delete.retention.ms=0", "min.compaction.lag.ms=0", "max.compaction.lag.ms=200")
	cl := b.client()
	put := func(key, value string) {
		t.Helper()
		if err := cl.ProduceSync(b.ctx(), &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		put("k", fmt.Sprint("old", i))
	}
	x := b.producer("x")
	if err := x.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := x.ProduceSync(b.ctx(), &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("LOST")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := x.EndTransaction(b.ctx(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	const end = 15 // all before it will be gone, and nothing tells
	bounded := b.config(topic, ends(Offsets{topic: {0: end}}))
	splits := b.splits(bounded, nil)
	var left []int64
	b.eventually("compaction", func() bool {
		put("k", "new") // rolls the segment
		c := b.config(topic, until(Latest))
		records, _ := b.drain(c, b.splits(c, nil))
		left = nil
		for _, g := range records {
			left = append(left, g.offset)
		}
		// The cleaner takes what is there in several rounds, and while it is read, too.
		return len(left) > 0 && left[0] >= end
	})
	b.t.Logf("left after compaction: %v", left)
	records, after := b.drain(bounded, splits)
	if len(records) != 0 || after[0].NextOffset != end {
		t.Errorf("read %v up to %v", records, &after[0])
	}
	c := b.config(topic, until(Latest))
	all, last := b.drain(c, b.splits(c, nil))
	if lso := b.stable(topic)[0]; last[0].NextOffset != lso || len(all) == 0 || all[len(all)-1].value != "new" {
		t.Errorf("read %v up to %v, the log ends at %d", all, &last[0], lso)
	}
	restored := b.splits(c, []stream.Split{last[0]})
	if records, _ := b.drain(c, restored); len(records) != 0 {
		t.Errorf("the restored source read %v", records)
	}
}
