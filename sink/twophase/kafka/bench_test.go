package kafka

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkaconn"
	"etl/stream"
)

const benchBatch = 512

// The floor is a loop over kgo as one would write it for speed: pooled records, one
// promise, no partitioning by key left out. Run all of them in one go and read ratios:
//
//	go test -run - -bench Produce -benchmem ./sink/twophase/kafka
func BenchmarkProduceBare(b *testing.B) {
	cl := benchClient(b)
	pool := sync.Pool{New: func() any { return new(kgo.Record) }}
	key, value := []byte("user-00000042"), make([]byte, 100)
	var acked atomic.Int64
	promise := func(r *kgo.Record, err error) {
		if err != nil {
			b.Error(err)
		}
		*r = kgo.Record{}
		pool.Put(r)
		acked.Add(1)
	}
	b.ReportAllocs()
	b.ResetTimer()
	defer cpu(b)()
	for range b.N {
		r := pool.Get().(*kgo.Record)
		r.Topic, r.Key, r.Value, r.Timestamp = "out", key, value, time.UnixMilli(1)
		cl.Produce(b.Context(), r, promise)
	}
	if err := cl.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	if acked.Load() != int64(b.N) {
		b.Fatal(acked.Load())
	}
}

func BenchmarkProducePooled(b *testing.B) {
	w := benchWriter(b)
	key, value := []byte("user-00000042"), make([]byte, 100)
	benchWrite(b, w, func(n int) *stream.Batch {
		batch := stream.NewBatch(nil)
		for range n {
			batch.Append(stream.Record{Key: key, Value: value, Timestamp: 1, Pos: -1})
		}
		return batch
	})
}

// The Copy benchmarks read as well: each is a whole pass from topic to topic. Bare is the
// loop everybody writes, Pooled the best one can do with kgo alone.
func BenchmarkCopyBare(b *testing.B) {
	cfg := benchCluster(b)
	benchCopy(b, benchConsumer(b, cfg), benchClientOf(b, cfg), func(cl *kgo.Client, r *kgo.Record) {
		cl.Produce(b.Context(), &kgo.Record{Topic: "out", Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp}, func(_ *kgo.Record, err error) {
			if err != nil {
				b.Error(err)
			}
		})
	})
}

func BenchmarkCopyPooled(b *testing.B) {
	cfg := benchCluster(b)
	promise := func(r *kgo.Record, err error) {
		if err != nil {
			b.Error(err)
		}
		r.Recycle()
	}
	benchCopy(b, benchConsumer(b, cfg, kgo.WithPools(new(kafkaconn.Records))), benchClientOf(b, cfg), func(cl *kgo.Client, r *kgo.Record) {
		r.Topic = "out"
		cl.Produce(b.Context(), r, promise)
	})
}

func BenchmarkCopyPassThrough(b *testing.B) {
	cfg := benchCluster(b)
	cons := benchConsumer(b, cfg, kgo.WithPools(new(kafkaconn.Records)))
	w := benchWriterOf(b, cfg)
	done := func(b *stream.Batch) { b.Origin().(*kafkaconn.Fetched).Recycle() }
	var rej rejects
	b.ReportAllocs()
	b.ResetTimer()
	defer cpu(b)()
	for n := 0; n < b.N; {
		cons.PollFetches(b.Context()).EachPartition(func(p kgo.FetchTopicPartition) {
			n += len(p.Records)
			for recs := p.Records; len(recs) > 0; recs = recs[min(benchBatch, len(recs)):] {
				part := recs[:min(benchBatch, len(recs))]
				batch := stream.NewOriginBatch(nil, kafkaconn.NewFetched(part), done)
				for i, r := range part {
					batch.Append(stream.Record{Key: r.Key, Value: r.Value, Headers: kafkaconn.StreamHeaders(r.Headers), Timestamp: r.Timestamp.UnixMilli(), Pos: int32(i)})
				}
				if err := w.Write(b.Context(), batch, &rej); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	benchFlush(b, w)
}

func benchConsumer(b *testing.B, cfg Config, more ...kgo.Opt) *kgo.Client {
	cl, err := cfg.Conn.NewClient(append(more, kgo.ConsumeTopics("in"), kgo.FetchMaxBytes(4<<20), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(cl.Close)
	return cl
}

func benchCopy(b *testing.B, cons, prod *kgo.Client, each func(*kgo.Client, *kgo.Record)) {
	b.ReportAllocs()
	b.ResetTimer()
	defer cpu(b)()
	for n := 0; n < b.N; {
		cons.PollFetches(b.Context()).EachRecord(func(r *kgo.Record) {
			n++
			each(prod, r)
		})
	}
	if err := prod.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
}

func benchWrite(b *testing.B, w *Writer, next func(n int) *stream.Batch) {
	b.ReportAllocs()
	b.ResetTimer()
	defer cpu(b)()
	var rej rejects
	for left := b.N; left > 0; left -= benchBatch {
		if err := w.Write(b.Context(), next(min(left, benchBatch)), &rej); err != nil {
			b.Fatal(err)
		}
	}
	benchFlush(b, w)
	if len(rej.errs) > 0 {
		b.Fatal(rej.errs[0])
	}
}

func benchFlush(b *testing.B, w *Writer) {
	p, err := w.PrepareCommit(b.Context(), stream.NewCheckpointID(1, 1), nil)
	if err != nil {
		b.Fatal(err)
	}
	if err := p.(*pending).flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
}

// cpu reports the processor time of the whole process per record, the broker's part
// included: on a busy machine it says more than the time on the wall.
func cpu(b *testing.B) func() {
	now := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	begin := now()
	return func() { b.ReportMetric(float64(now()-begin)/float64(b.N), "cpu-ns/op") }
}

func benchCluster(b *testing.B) Config {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "out", "in"), kfake.BlackholeProduce(), kfake.SyntheticFetch(kfake.SyntheticBatch{Records: 4096}))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return Config{Conn: kafkaconn.Config{SeedBrokers: c.ListenAddrs()}, Topics: []string{"out"}, TransactionTimeout: time.Minute}
}

func benchClient(b *testing.B) *kgo.Client { return benchClientOf(b, benchCluster(b)) }

func benchClientOf(b *testing.B, cfg Config) *kgo.Client {
	cl, err := cfg.Conn.NewClient(kgo.ProducerLinger(5*time.Millisecond), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(1<<20-100), kgo.MaxBufferedRecords(200000), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(cl.Close)
	return cl
}

func benchWriter(b *testing.B) *Writer { return benchWriterOf(b, benchCluster(b)) }

func benchWriterOf(b *testing.B, cfg Config) *Writer {
	w := NewWriter(cfg)
	env := stream.Env{World: stream.SystemWorld(slog.New(slog.DiscardHandler)), Job: "bench", Lineage: stream.Lineage{1}, Attempt: 1, UID: "out"}
	if err := w.Open(b.Context(), env, nil); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { w.Close() })
	return w
}

// The writer allocates nothing per record: neither on the way out nor when a record is
// acknowledged. What kgo allocates is not counted here.
func TestNoAllocationPerRecord(t *testing.T) {
	w := NewWriter(Config{Topics: []string{"out"}})
	w.factory = &factory{}
	w.env.Clock = stream.SystemClock{}
	e := newEpoch(t.Context(), &producer{}, 1<<30, nil, time.Time{})
	e.last = []written{{topic: "out", last: make([]int64, 4)}}
	key, value := []byte("user-00000042"), make([]byte, 100)
	made := func(n int) *stream.Batch {
		b := stream.NewBatch(nil)
		for range n {
			b.Append(stream.Record{Key: key, Value: value, Timestamp: 1, Pos: -1})
		}
		return b
	}
	recs, ptrs := make([]kgo.Record, benchBatch), make([]*kgo.Record, benchBatch)
	free := func(b *stream.Batch) { b.Origin().(*kafkaconn.Fetched).Recycle() }
	fetched := func(n int) *stream.Batch {
		b := stream.NewOriginBatch(nil, kafkaconn.NewFetched(ptrs), free)
		for i := range n {
			recs[i] = kgo.Record{Key: key, Value: value}
			ptrs[i] = &recs[i]
			b.Append(stream.Record{Key: key, Value: value, Timestamp: 1, Pos: int32(i)})
		}
		return b
	}
	for name, next := range map[string]func(int) *stream.Batch{"made": made, "pass through": fetched} {
		rej := &rejects{}
		perBatch := testing.AllocsPerRun(100, func() {
			for _, r := range w.encode(next(benchBatch), rej) {
				r.Partition = 1
				e.acknowledge(r, nil)
			}
		})
		if perBatch > 20 { // what a collection, or the race detector, takes out of the pools
			t.Errorf("%s: %.1f allocations per batch of %d", name, perBatch, benchBatch)
		}
	}
}
