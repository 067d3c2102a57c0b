package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkatest"
)

// produce writes records and waits until the broker has them.
func produce(t testing.TB, b *kafkatest.Broker, topic string, recs ...*kgo.Record) {
	t.Helper()
	cl, err := b.NewClient(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.ProducerBatchMaxBytes(10<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, r := range recs {
		r.Topic = topic
	}
	if err := cl.ProduceSync(t.Context(), recs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// numbered makes records with the values from..to-1, dealt out over partitions. The
// key is the value modulo keys.
func numbered(from, to, keys int, partitions int32) (recs []*kgo.Record) {
	for n := from; n < to; n++ {
		recs = append(recs, &kgo.Record{Partition: int32(n) % partitions, Key: fmt.Append(nil, "k", n%keys), Value: fmt.Appendf(nil, `{"k":"k%d","n":%d}`, n%keys, n)})
	}
	return recs
}

// values makes records of one partition.
func values(partition int32, vs ...string) (recs []*kgo.Record) {
	for _, v := range vs {
		recs = append(recs, &kgo.Record{Partition: partition, Value: []byte(v)})
	}
	return recs
}

// transaction writes records to a topic in a transaction and commits or aborts it.
func transaction(t testing.TB, b *kafkatest.Broker, topic string, commit kgo.TransactionEndTry, recs ...*kgo.Record) {
	t.Helper()
	cl, err := b.NewClient(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(fmt.Sprint("input-", topic)))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for _, r := range recs {
		r.Topic = topic
	}
	if err := cl.ProduceSync(t.Context(), recs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := cl.EndTransaction(t.Context(), commit); err != nil {
		t.Fatal(err)
	}
}

// feed writes numbered records little by little until the function it returns is
// called, which returns how many there are.
func feed(t testing.TB, b *kafkatest.Broker, topic string, keys int, partitions int32) (stop func() int) {
	t.Helper()
	cl, err := b.NewClient(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		defer cl.Close()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		n := 0
		for ctx.Err() == nil {
			for _, r := range numbered(n, n+10, keys, partitions) {
				r.Topic = topic
				cl.Produce(context.WithoutCancel(ctx), r, func(_ *kgo.Record, err error) {
					if err != nil {
						t.Errorf("feed: %v", err)
					}
				})
			}
			n += 10
			<-tick.C
		}
		if err := cl.Flush(context.WithoutCancel(ctx)); err != nil {
			t.Errorf("feed: %v", err)
		}
		ended <- n
	}()
	var total int
	stop = func() int {
		if cancel(); total == 0 {
			total = <-ended
		}
		return total
	}
	t.Cleanup(func() { stop() })
	return stop
}

// bounds are the log start, last stable and end offsets of the partitions of a topic.
func bounds(t testing.TB, b *kafkatest.Broker, topic string) (stable, end map[int32]int64) {
	t.Helper()
	cl, err := b.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	eventually(t, "leaders say the offsets of "+topic, func() bool { // a broker that is late with its heartbeat leads nothing for a moment
		committed, err := adm.ListCommittedOffsets(t.Context(), topic)
		ends, err2 := adm.ListEndOffsets(t.Context(), topic)
		stable, end = map[int32]int64{}, map[int32]int64{}
		ends.Each(func(o kadm.ListedOffset) { end[o.Partition] = o.Offset })
		committed.Each(func(o kadm.ListedOffset) { stable[o.Partition] = o.Offset })
		return errors.Join(err, err2, committed.Error(), ends.Error()) == nil
	})
	return stable, end
}

// free waits until no transaction holds readers of a topic back.
func free(t testing.TB, b *kafkatest.Broker, topic string) {
	t.Helper()
	eventually(t, "the last stable offsets of "+topic+" are its ends", func() bool {
		stable, end := bounds(t, b, topic)
		return maps.Equal(stable, end)
	})
}

// committed is what a read_committed reader finds in a topic now, in order, by
// partition. It reads in a way of its own: nothing here is shared with the product.
func committed(t testing.TB, b *kafkatest.Broker, topic string) map[int32][]*kgo.Record {
	t.Helper()
	stable, _ := bounds(t, b, topic)
	cl, err := b.NewClient(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), kgo.FetchMaxWait(50*time.Millisecond), kgo.KeepRetryableFetchErrors())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	out := map[int32][]*kgo.Record{}
	maps.DeleteFunc(stable, func(_ int32, o int64) bool { return o == 0 })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for len(stable) > 0 && ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if r.Offset < stable[r.Partition] && !r.Attrs.IsControl() {
				out[r.Partition] = append(out[r.Partition], r)
			}
			if r.Offset+1 >= stable[r.Partition] {
				delete(stable, r.Partition)
			}
		})
	}
	if len(stable) > 0 {
		t.Fatalf("%s could not be read up to %v", topic, stable)
	}
	return out
}

// texts are the committed values of a topic, sorted.
func texts(t testing.TB, b *kafkatest.Broker, topic string) (vs []string) {
	t.Helper()
	for _, recs := range committed(t, b, topic) {
		for _, r := range recs {
			vs = append(vs, string(r.Value))
		}
	}
	slices.Sort(vs)
	return vs
}

// exactly fails unless a topic has these values and no others.
func exactly(t testing.TB, b *kafkatest.Broker, topic string, want ...string) {
	t.Helper()
	got := texts(t, b, topic)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("%s has %d rows %.2000q\nwant %d %.2000q", topic, len(got), got, len(want), want)
	}
}
