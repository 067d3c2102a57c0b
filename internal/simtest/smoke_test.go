package simtest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"etl/checkpoint"
	"etl/checkpoint/memstore"
	"etl/internal/kafkaconn"
	"etl/pipeline"
	"etl/sink"
	"etl/source"
	sourcekafka "etl/source/kafka"
	"etl/sink/twophase/kafka"
	"etl/state"
	"etl/state/keyed"
	"etl/stream"
	"etl/transform"
)

type src struct{ cfg sourcekafka.Config }

func (s src) NewEnumerator() source.Enumerator { return sourcekafka.NewEnumerator(s.cfg) }
func (s src) NewReader() source.Reader         { return sourcekafka.NewReader(s.cfg) }
func (s src) Bounded() bool                    { return s.cfg.Bounded() }

type snk struct{ cfg kafka.Config }

func (s snk) NewWriter() sink.Writer       { return kafka.NewWriter(s.cfg) }
func (s snk) NewCommitter() sink.Committer { return kafka.NewCommitter(s.cfg) }
func (s snk) Features() sink.Features      { return s.cfg.Features(10 * time.Minute) }

func TestSmoke(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "in", "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cl, _ := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic("in"))
	for i := range 3000 {
		cl.Produce(ctx, &kgo.Record{Key: fmt.Appendf(nil, "k%d", i%17), Value: fmt.Appendf(nil, `{"n":%d}`, i)}, nil)
	}
	if err := cl.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	cl.Close()
	conn := kafkaconn.Config{SeedBrokers: c.ListenAddrs()}
	pol := checkpoint.Policy{Interval: 100 * time.Millisecond, MinPause: 10 * time.Millisecond, Timeout: 5 * time.Second}
	b := pipeline.New("smoke").Parallelism(2)
	b.Source("in", src{sourcekafka.Config{Cluster: conn, Topics: []string{"in"}, End: sourcekafka.Latest}}, nil).
		KeyBy("meta.key", func() pipeline.Keyer { return transform.RecordKey() }).
		Apply("count", transform.CountText(transform.OnChange)).
		Sink("out", snk{kafka.Config{Conn: conn, Topics: []string{"out"}, Policy: pol, Parallelism: 2, TransactionTimeout: 10 * time.Minute}})
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	w := stream.SystemWorld(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	j, err := pipeline.NewJob(g, pipeline.Options{World: w, Policy: pol, Storage: memstore.New("smoke"), Restart: pipeline.RestartStrategy{Attempts: pipeline.NoRestart},
		NewBackend: func(e pipeline.BackendEnv) (state.Backend, error) {
			return keyed.NewMemory(keyed.MemoryConfig{MaxParallelism: e.MaxParallelism}), nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Run(ctx); err != nil {
		t.Fatal(err)
	}
	rd, _ := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics("out"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer rd.Close()
	n := 0
	for n < 3000 {
		fs := rd.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d records", n)
		}
		fs.EachRecord(func(*kgo.Record) { n++ })
	}
	t.Log(n, j.Status())
}
