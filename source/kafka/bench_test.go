package kafka

import (
	"context"
	"log/slog"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkaconn"
	"etl/source"
	"etl/stream"
)

// BenchmarkRead reads records of 100 bytes from the in-process broker: by the
// Reader, and, as the floor, by a bare loop over a client with the same pool. The
// broker's own work is in both; CPU time counts, since all of it runs beside.
func BenchmarkRead(b *testing.B) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "in"), kfake.SyntheticFetch(kfake.SyntheticBatch{}))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	cfg := Config{Topics: []string{"in"}, Cluster: kafkaconn.Config{SeedBrokers: c.ListenAddrs()}}.WithDefaults()
	b.Run("bare", func(b *testing.B) { perRecord(b, bare(b, cfg)) })
	b.Run("reader", func(b *testing.B) { perRecord(b, reading(b, cfg)) })
}

// perRecord reports CPU time and garbage of each record; read returns how many it
// got.
func perRecord(b *testing.B, read func() int) {
	for range 100 {
		read() // connections, pools
	}
	b.ReportAllocs()
	b.ResetTimer()
	before, n := cpu(), 0
	for n < b.N {
		n += read()
	}
	b.StopTimer()
	b.ReportMetric(float64(cpu()-before)/float64(n), "cpu-ns/record")
}

func cpu() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

func benchSplits() (out []stream.Split) {
	for n := range int32(4) {
		out = append(out, stream.Split{Topic: "in", Partition: n, LeaderEpoch: -1, End: stream.Unbounded})
	}
	return out
}

var sum int64

func bare(b *testing.B, cfg Config) func() int {
	offsets := map[int32]kgo.Offset{}
	for _, s := range benchSplits() {
		offsets[s.Partition] = kgo.NewOffset().At(0)
	}
	cl, err := cfg.Cluster.NewClient(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"in": offsets}),
		kgo.FetchMaxBytes(cfg.FetchMaxBytes), kgo.FetchMaxPartitionBytes(cfg.FetchMaxPartitionBytes), kgo.WithPools(&kafkaconn.Records{}))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(cl.Close)
	return func() (n int) {
		cl.PollFetches(context.Background()).EachRecord(func(r *kgo.Record) {
			sum += int64(len(r.Value)) + r.Offset
			r.Recycle()
			n++
		})
		return n
	}
}

func reading(b *testing.B, cfg Config) func() int {
	r := NewReader(cfg)
	env := source.Env{Env: stream.Env{World: stream.SystemWorld(slog.New(slog.DiscardHandler)), UID: "in"}, Schema: &stream.Schema{}}
	if err := r.Open(context.Background(), env, benchSplits()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = r.Close() })
	return func() int {
		el, err := r.Poll(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		batch, ok := el.(*stream.Batch)
		if !ok {
			return 0
		}
		n := len(batch.Records)
		for i := range batch.Records {
			sum += int64(len(batch.Records[i].Value)) + batch.Records[i].Offset
		}
		batch.Release()
		return n
	}
}
