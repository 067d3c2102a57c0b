package telemetry_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"etl/checkpoint"
	"etl/checkpoint/memstore"
	"etl/internal/telemetry"
	"etl/pipeline"
	"etl/sink"
	"etl/source"
	"etl/state"
	"etl/state/keyed"
	"etl/stream"
	"etl/transform"
)

// lab is a job with its telemetry, and the outside it reads and writes: lines, which
// are counted in two subtasks, and a sink that is as slow as the test says.
type lab struct {
	t     *testing.T
	tl    *telemetry.Telemetry
	store *memstore.Store
	log   *log
	out   *outside
	// onError is the policy of the component that counts.
	onError pipeline.OnError
	crash   context.CancelFunc // ends the job as it stands
	every   time.Duration      // of checkpoints
}

func newLab(t *testing.T) *lab {
	tl, err := telemetry.New(t.Context(), telemetry.Options{Pipeline: "lab", Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tl.Shutdown(context.Background()) })
	return &lab{t: t, tl: tl, store: memstore.New("lab"), log: &log{more: make(chan struct{})},
		out: &outside{}, every: time.Hour}
}

// graph is source -> rekey -> count -> sink.
func (l *lab) graph() *pipeline.Graph {
	b := pipeline.New("lab").Parallelism(2)
	s := b.Source("lines", l.log, nil).KeyBy("line", func() pipeline.Keyer { return pickyKey{} }).
		Apply("counts", transform.CountText(transform.OnChange)).OnError(l.onError)
	s.Sink("out", l.out)
	if l.onError == pipeline.DeadLetter {
		s.DeadLetters().Sink("letters", l.out)
	}
	g, err := b.Graph()
	if err != nil {
		l.t.Fatal(err)
	}
	return g
}

// start runs the job until stop, which waits for its end.
func (l *lab) start() (stop func()) {
	o := pipeline.Options{World: stream.SystemWorld(nil), Storage: l.store, Listener: l.tl.Listener(), Seed: 1,
		Policy: checkpoint.Policy{Interval: l.every, Timeout: time.Hour, Drain: time.Second},
		NewBackend: func(e pipeline.BackendEnv) (state.Backend, error) {
			return keyed.NewMemory(keyed.MemoryConfig{Lineage: e.Lineage, MaxParallelism: e.MaxParallelism}), nil
		}}
	j, err := pipeline.NewJob(l.graph(), o)
	if err != nil {
		l.t.Fatal(err)
	}
	done := make(chan error, 1)
	ctx, crash := context.WithCancel(l.t.Context())
	l.crash = func() {
		crash()
		<-done
	}
	go func() { done <- j.Run(ctx) }()
	synctest.Wait()
	return func() {
		l.t.Helper()
		j.Stop()
		if err := <-done; err != nil {
			l.t.Error(err)
		}
	}
}

// trickle adds lines that go to one subtask, each in a batch of its own.
func (l *lab) trickle(n int) {
	for range n {
		l.log.add("a")
		synctest.Wait()
	}
}

// metric adds up a metric over all series whose labels contain every one of the words.
func (l *lab) metric(name string, words ...string) (sum float64) {
	l.t.Helper()
	rec := httptest.NewRecorder()
	l.tl.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/metrics", nil))
next:
	for line := range strings.Lines(rec.Body.String()) {
		rest, ok := strings.CutPrefix(line, name+"{")
		if !ok {
			continue
		}
		for _, w := range words {
			if !strings.Contains(rest, w) {
				continue next
			}
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):]), 64)
		if err != nil {
			l.t.Fatal(err)
		}
		sum += v
	}
	return sum
}

// is checks a metric.
func (l *lab) is(want float64, name string, words ...string) {
	l.t.Helper()
	if got := l.metric(name, words...); got != want {
		l.t.Errorf("%s%v is %v, want %v", name, words, got, want)
	}
}

// pickyKey is the record's key, and refuses the key "bad".
type pickyKey struct{}

func (pickyKey) Key(b *stream.Batch, reject func(int, error)) error {
	for i := range b.Records {
		r := &b.Records[i]
		if r.Group, r.Hash = r.Value, stream.Hash(r.Value); string(r.Value) == "bad" {
			r.Group = nil
			reject(i, stream.Errorf(stream.Failed, "lab.key", "", "", "the key is bad"))
		}
	}
	return nil
}

// log is a source of one split; each line added is a batch of its own.
type log struct {
	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed and replaced when a line is added
	// unreported is the error of every report to the group.
	unreported error
}

func (l *log) add(lines ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, lines...)
	close(l.more)
	l.more = make(chan struct{})
}

func (l *log) NewEnumerator() source.Enumerator { return enumerator{l} }
func (l *log) NewReader() source.Reader         { return &reader{log: l, wake: make(chan struct{}, 1)} }
func (l *log) Bounded() bool                    { return false }

type enumerator struct{ log *log }

func (e enumerator) Open(context.Context, stream.Env) error { return nil }

func (e enumerator) Discover(_ context.Context, known []stream.Split) ([]stream.Split, error) {
	if len(known) > 0 {
		return nil, nil
	}
	return []stream.Split{{Topic: "lines", End: stream.Unbounded}}, nil
}

func (e enumerator) Report(context.Context, checkpoint.Permit, []stream.Split) error {
	e.log.mu.Lock()
	defer e.log.mu.Unlock()
	return e.log.unreported
}

func (e enumerator) Close() error { return nil }

type reader struct {
	log    *log
	env    source.Env
	splits []stream.Split
	wake   chan struct{}
}

func (r *reader) Open(_ context.Context, env source.Env, splits []stream.Split) error {
	r.env, r.splits = env, splits
	return nil
}

func (r *reader) Poll(ctx context.Context) (stream.Element, error) {
	for {
		r.log.mu.Lock()
		lines, more := r.log.lines, r.log.more
		r.log.mu.Unlock()
		for i := range r.splits {
			if s := &r.splits[i]; s.NextOffset < int64(len(lines)) {
				b := stream.NewBatch(r.env.Schema)
				b.Append(stream.Record{Value: []byte(lines[s.NextOffset]), Topic: s.Topic, Offset: s.NextOffset, Pos: -1})
				s.NextOffset++
				return b, nil
			}
		}
		select {
		case <-more:
		case <-r.wake:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (r *reader) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *reader) Assign(add []stream.Split) error { r.splits = append(r.splits, add...); return nil }
func (r *reader) Splits() []stream.Split          { return append([]stream.Split(nil), r.splits...) }
func (r *reader) Close() error                    { return nil }

// outside is a sink: transactions by checkpoint. Each call takes as long as its field
// says; a Write while stuck is not nil waits until it is closed.
type outside struct {
	writes, finish, commits time.Duration
	stuck                   chan struct{}
	hollow                  bool // nothing of what it is given has to be committed
	logs                    int  // so many bytes of each epoch wait in checkpoint storage
}

func (o *outside) NewWriter() sink.Writer       { return &writer{out: o} }
func (o *outside) NewCommitter() sink.Committer { return &committer{out: o} }
func (o *outside) Features() sink.Features      { return sink.Features{Transactional: true} }

type writer struct {
	out  *outside
	env  stream.Env
	rows int64
}

func (w *writer) Open(_ context.Context, env stream.Env, _ []state.Handle) error {
	w.env = env
	return nil
}

func (w *writer) Write(ctx context.Context, b *stream.Batch, _ sink.Output) error {
	w.rows += int64(len(b.Records))
	b.Release()
	if w.out.stuck != nil {
		<-w.out.stuck
	}
	return w.env.Clock.Sleep(ctx, w.out.writes)
}

func (w *writer) PrepareCommit(_ context.Context, id stream.CheckpointID, _ sink.Output) (sink.Pending, error) {
	p := pending{w: w, id: id, rows: w.rows}
	w.rows = 0
	return p, nil
}

func (w *writer) Published(stream.CheckpointID)                      {}
func (w *writer) Resolved(stream.CheckpointID, bool)                 {}
func (w *writer) Aborted(context.Context, stream.CheckpointID) error { return nil }
func (w *writer) Close() error                                       { return nil }

type pending struct {
	w    *writer
	id   stream.CheckpointID
	rows int64
}

func (p pending) Finish(ctx context.Context, up state.Uploader) (sink.Prepared, error) {
	if p.rows == 0 || p.w.out.hollow {
		return sink.Prepared{}, nil
	}
	env := p.w.env
	var rows []state.Handle
	if n := p.w.out.logs; n > 0 {
		h, err := up.Append(state.Rows, make([]byte, n)).Wait(ctx)
		if err != nil {
			return sink.Prepared{}, err
		}
		rows = append(rows, h)
	}
	return sink.Prepared{Committables: []checkpoint.Committable{{Sink: env.UID, Subtask: env.Subtask, Checkpoint: p.id, Attempt: env.Attempt,
		Kind: "lab", Version: 1, Rows: p.rows, Objects: rows}}}, env.Clock.Sleep(ctx, p.w.out.finish)
}

type committer struct {
	out *outside
	env sink.CommitEnv
}

func (c *committer) Open(_ context.Context, env sink.CommitEnv) error { c.env = env; return nil }

func (c *committer) Commit(ctx context.Context, _ checkpoint.Permit, _ checkpoint.Committable) (sink.Result, error) {
	return sink.Result{Outcome: sink.Done}, c.env.Clock.Sleep(ctx, c.out.commits)
}

func (c *committer) Probe(_ context.Context, cs []checkpoint.Committable, _ time.Time) ([]sink.Probed, error) {
	out := make([]sink.Probed, len(cs))
	for i := range out {
		out[i].Status = sink.Open
	}
	return out, nil
}

func (c *committer) Marker(context.Context, int) (stream.CheckpointID, error) {
	return stream.NoCheckpoint, nil
}

func (c *committer) Fence(context.Context, []stream.Attempt, []checkpoint.Committable) error {
	return nil
}
func (c *committer) Inspect(context.Context) ([]sink.InDoubt, error) { return nil, nil }
func (c *committer) Close() error                                    { return nil }
