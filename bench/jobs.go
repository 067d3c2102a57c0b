package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"etl/checkpoint"
	"etl/checkpoint/filestore"
	"etl/internal/kafkaconn"
	"etl/pipeline"
	twophase "etl/sink/twophase/kafka"
	"etl/source/kafka"
	"etl/state"
	"etl/state/pebbledb"
	"etl/stream"
	"etl/transform"
)

// policy is the one of all throughput jobs: a checkpoint each second.
func policy(mode checkpoint.Mode) checkpoint.Policy {
	return checkpoint.Policy{Mode: mode, Interval: time.Second, MinPause: checkpoint.NoPause, Timeout: 30 * time.Second}
}

func etlCopy(ctx context.Context, w *work) error {
	return w.job(ctx, checkpoint.ExactlyOnce, func(in *pipeline.Stream) *pipeline.Stream { return in })
}

func etlCount(ctx context.Context, w *work) error {
	return w.job(ctx, checkpoint.ExactlyOnce, counting)
}

func etlCountAtLeastOnce(ctx context.Context, w *work) error {
	return w.job(ctx, checkpoint.AtLeastOnce, counting)
}

// counting is a rekey by record key and a count per key, every count written.
func counting(in *pipeline.Stream) *pipeline.Stream {
	return in.KeyBy("meta.key", func() pipeline.Keyer { return transform.RecordKey() }).Apply("count", transform.CountText(transform.OnChange))
}

// job runs in -> middle -> out to the end of the input topic.
func (w *work) job(ctx context.Context, mode checkpoint.Mode, middle func(*pipeline.Stream) *pipeline.Stream) error {
	dir, err := os.MkdirTemp("", "etl-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	conn, p := kafkaconn.Config{SeedBrokers: []string{w.broker}}, policy(mode)
	b := pipeline.New("bench")
	in := b.Source("in", kafka.New(kafka.Config{Cluster: conn, Topics: []string{"in"}, End: kafka.Latest, FetchMaxPartitionBytes: 4 << 20}), nil)
	middle(in).Sink("out", twophase.New(twophase.Config{Conn: conn, Topics: []string{"out"}, Policy: p, Parallelism: 1, TransactionTimeout: 10 * time.Minute}))
	g, err := b.Graph()
	if err != nil {
		return err
	}
	return w.runGraph(ctx, g, p, dir)
}

// runGraph runs a graph with file storage and Pebble state below dir.
func (w *work) runGraph(ctx context.Context, g *pipeline.Graph, p checkpoint.Policy, dir string) error {
	world := stream.SystemWorld(nil)
	st, err := filestore.Open(world, filepath.Join(dir, "checkpoints"))
	if err != nil {
		return err
	}
	watch := &watcher{m: w.meter, quit: make(chan struct{})}
	defer watch.stop()
	l := w.listener
	if l == nil {
		l = watch.listener()
	}
	j, err := pipeline.NewJob(g, pipeline.Options{World: world, Policy: p, Storage: st, Listener: l,
		Restart: pipeline.RestartStrategy{Attempts: pipeline.NoRestart}, NewBackend: backend(dir, w.memory)})
	if err != nil {
		return err
	}
	return j.Run(ctx)
}

// backend keeps state below dir; memory 0 is the default budget.
func backend(dir string, memory int64) func(pipeline.BackendEnv) (state.Backend, error) {
	return func(e pipeline.BackendEnv) (state.Backend, error) {
		return pebbledb.New(pebbledb.Config{Dir: filepath.Join(dir, "state"), Lineage: e.Lineage, Attempt: e.Attempt, MaxParallelism: e.MaxParallelism, World: e.World, Memory: memory})
	}
}

// watcher feeds the meter from the counters of the source, a few hundred times a
// second, so that measuring costs the job nothing.
type watcher struct {
	m    *meter
	quit chan struct{}
}

func (x *watcher) stop() { close(x.quit) }

func (x *watcher) listener() *stream.Listener {
	return &stream.Listener{
		Task: func(id stream.TaskID, kind string, c *stream.Counters) {
			if kind == string(pipeline.SourceKind) {
				go x.follow(c)
			}
		},
		Checkpoint: func(e stream.CheckpointEvent) {
			if e.Phase == "confirmed" {
				x.m.checkpoints.Add(1)
			}
		},
	}
}

func (x *watcher) follow(c *stream.Counters) {
	t := time.NewTicker(3 * time.Millisecond)
	defer t.Stop()
	last := int64(0)
	for {
		select {
		case <-t.C:
			n := c.RecordsIn.Load()
			x.m.add(int(n - last))
			last = n
		case <-x.quit:
			return
		}
	}
}
