package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"

	"etl/checkpoint"
	"etl/pipeline"
	"etl/sink"
	"etl/source"
	"etl/state"
	"etl/stream"
	"etl/transform"
)

// pauseSection measures in a process of its own: its figures are printed there.
func pauseSection(ctx context.Context, l *lab) error {
	mib := 1024
	if l.o.rounds == 1 {
		mib = 256
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, rate := range []int{50_000, 200_000} {
		cmd := exec.CommandContext(ctx, self, "child", "-work", "pause", "-state", strconv.Itoa(mib), "-rate", strconv.Itoa(rate))
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return err
		}
	}
	fmt.Println("   (aim: pause p99 <= 1 ms, duration in proportion to the delta)")
	return nil
}

// The state of the pause run: entries of 16 bytes of key and 64 of value.
const (
	entryBytes = 16 + 64
	pauseFor   = 15 * time.Second
	// settle is how long after the fill nothing is measured: the checkpoint of the
	// fill itself is a large delta.
	settle = 5 * time.Second
)

// pauseJob fills a state, then updates it at a rate under a 100 ms interval, and
// prints how long the task stood still at barriers.
func pauseJob(ctx context.Context, w *work) error {
	dir, err := os.MkdirTemp("", "etl-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	keys := w.stateMiB << 20 / entryBytes
	p := checkpoint.Policy{Interval: 100 * time.Millisecond, MinPause: checkpoint.NoPause, Timeout: time.Minute, TolerableFailures: 1000}
	b := pipeline.New("pause")
	b.Source("gen", generator{keys: keys, rate: w.rate, measure: pauseFor}, nil).
		KeyBy("key", func() pipeline.Keyer { return transform.RecordKey() }).
		Apply("state", touch{}).
		Sink("null", discard{})
	g, err := b.Graph()
	if err != nil {
		return err
	}
	w.memory = 4 << 30 // the state fits: what is measured is the barrier, not the disk
	pauses := &pauses{}
	w.listener = &stream.Listener{Part: pauses.part, Checkpoint: pauses.checkpoint}
	begin := time.Now()
	if err := w.runGraph(ctx, g, p, dir); err != nil {
		return err
	}
	pauses.print(w, keys, time.Since(begin))
	return nil
}

// touch changes the value of each record's key and emits nothing.
type touch struct{}

func (touch) OutputSchema(in *stream.Schema) (*stream.Schema, error) { return in, nil }
func (touch) New() transform.Operator                                { return &toucher{} }
func (touch) Descriptors() []state.Descriptor {
	return []state.Descriptor{{Name: "v", Kind: "value", Serializer: "bench/1"}}
}

type toucher struct {
	keyed  state.Keyed
	keys   [][]byte
	hashes []uint64
	refs   []state.Ref
}

func (t *toucher) Open(_ context.Context, env transform.Env) error { t.keyed = env.Keyed; return nil }

func (t *toucher) Process(ctx context.Context, b *stream.Batch, _ transform.Output) error {
	for rest := b.Records; len(rest) > 0; rest = rest[min(64, len(rest)):] {
		t.keys, t.hashes = t.keys[:0], t.hashes[:0]
		for i := range rest[:min(64, len(rest))] {
			t.keys, t.hashes = append(t.keys, rest[i].Group), append(t.hashes, rest[i].Hash)
		}
		t.refs = slices.Grow(t.refs[:0], len(t.keys))[:len(t.keys)]
		if err := t.keyed.Batch(ctx, t.keys, t.hashes, t.refs); err != nil {
			return err
		}
		for _, r := range t.refs {
			v := r.Mutable(64)
			binary.LittleEndian.PutUint64(v, binary.LittleEndian.Uint64(v)+1)
		}
	}
	return nil
}

func (t *toucher) Close() error { return nil }

// pauses collects what checkpoints took once the state was full.
type pauses struct {
	mu        sync.Mutex
	sync, all []time.Duration
	delta     int64
}

func (p *pauses) part(e stream.PartEvent) {
	if e.Part == "snapshot" && steady.Load() {
		p.mu.Lock()
		p.sync = append(p.sync, e.Took)
		p.mu.Unlock()
	}
}

func (p *pauses) checkpoint(e stream.CheckpointEvent) {
	if e.Phase == "published" && steady.Load() {
		p.mu.Lock()
		p.all = append(p.all, e.Duration)
		p.delta += e.Delta
		p.mu.Unlock()
	}
}

func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[min(int(float64(len(d))*q), len(d)-1)]
}

func (p *pauses) print(w *work, keys int, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := max(len(p.all), 1)
	fmt.Printf("   %d MiB in %d entries, %d updates/s: %d checkpoints, delta %d KiB each\n", w.stateMiB, keys, w.rate, n, p.delta/int64(n)/1024)
	fmt.Printf("     pause     p50 %v  p99 %v  max %v\n", quantile(p.sync, .5), quantile(p.sync, .99), quantile(p.sync, 1))
	fmt.Printf("     duration  p50 %v  p99 %v  max %v   (whole run %v)\n", quantile(p.all, .5), quantile(p.all, .99), quantile(p.all, 1), took.Round(time.Second))
}

// discard is a sink that writes nowhere.
type discard struct{}

func (discard) NewWriter() sink.Writer       { return discardWriter{} }
func (discard) NewCommitter() sink.Committer { return nil }
func (discard) Features() sink.Features      { return sink.Features{} }

type discardWriter struct{}

func (discardWriter) Open(context.Context, stream.Env, []state.Handle) error { return nil }
func (discardWriter) Write(_ context.Context, b *stream.Batch, _ sink.Output) error {
	b.Release()
	return nil
}
func (discardWriter) PrepareCommit(context.Context, stream.CheckpointID, sink.Output) (sink.Pending, error) {
	return discardWriter{}, nil
}
func (discardWriter) Finish(context.Context, state.Uploader) (sink.Prepared, error) {
	return sink.Prepared{}, nil
}
func (discardWriter) Published(stream.CheckpointID)                      {}
func (discardWriter) Resolved(stream.CheckpointID, bool)                 {}
func (discardWriter) Aborted(context.Context, stream.CheckpointID) error { return nil }
func (discardWriter) Close() error                                       { return nil }

var _ source.Connector = generator{}
