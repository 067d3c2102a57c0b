package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"etl/checkpoint"
	"etl/sink"
	"etl/source"
	"etl/state"
	"etl/stream"
	"etl/transform"
)

// outside is the world of a test: partitions to read and a transactional store to
// write, which live on when a job dies.
type outside struct {
	mu         sync.Mutex
	partitions map[string][][]string // by topic, partition: records "key"
	txns       map[string]*memTxn
	committed  []row                // in commit order
	sinks      map[stream.UID][]row // the same by sink
	markers    map[stream.TaskID]stream.CheckpointID
	fenced     map[stream.Attempt]bool
	commits    int
	broken     []string // promises of the engine to its sinks
}

type row struct{ key, value string }

// memTxn is a transaction of the outside store: open until it is committed or
// aborted, by anybody.
type memTxn struct {
	lane       stream.TaskID
	checkpoint stream.CheckpointID
	attempt    stream.Attempt
	rows       []row
	state      string // open | committed | aborted
}

func newOutside() *outside {
	return &outside{partitions: map[string][][]string{}, txns: map[string]*memTxn{}, markers: map[stream.TaskID]stream.CheckpointID{},
		sinks:  map[stream.UID][]row{},
		fenced: map[stream.Attempt]bool{}}
}

// memReader reads the partitions of one topic, at most batch records every pace.
type memReader struct {
	o      *outside
	topic  string
	batch  int
	pace   time.Duration
	env    source.Env
	splits []stream.Split
	wake   chan struct{}
	due    time.Time
	next   int
	ended  bool
}

func (r *memReader) Open(_ context.Context, env source.Env, splits []stream.Split) error {
	r.env, r.splits, r.wake, r.due = env, splits, make(chan struct{}, 1), env.Clock.Now()
	return nil
}

func (r *memReader) Assign(add []stream.Split) error { r.splits = append(r.splits, add...); return nil }

func (r *memReader) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *memReader) Poll(ctx context.Context) (stream.Element, error) {
	for {
		if b := r.ready(); b != nil {
			return b, nil
		}
		if r.finished() && !r.ended {
			r.ended = true
			return stream.EndOfInput{}, nil
		}
		select {
		case <-time.After(max(r.due.Sub(r.env.Clock.Now()), time.Millisecond)):
		case <-r.wake:
			return r.element(), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (r *memReader) element() stream.Element {
	if b := r.ready(); b != nil {
		return b
	}
	return nil
}

// ready returns a batch when one is due.
func (r *memReader) ready() *stream.Batch {
	now := r.env.Clock.Now()
	if now.Before(r.due) {
		return nil
	}
	for range r.splits {
		s := &r.splits[r.next%len(r.splits)]
		r.next++
		if b := r.read(s); b != nil {
			// A quarter of the batches come right behind another.
			if r.env.Rand.IntN(4) > 0 {
				r.due = now.Add(time.Duration(r.env.Rand.Int64N(int64(2 * r.pace))))
			}
			return b
		}
	}
	return nil
}

func (r *memReader) finished() bool {
	for i := range r.splits {
		if !r.splits[i].Finished() {
			return false
		}
	}
	return true
}

func (r *memReader) read(s *stream.Split) *stream.Batch {
	r.o.mu.Lock()
	defer r.o.mu.Unlock()
	log := r.o.partitions[s.Topic][s.Partition]
	end := min(int64(len(log)), s.NextOffset+int64(r.batch))
	if s.End != stream.Unbounded {
		end = min(end, s.End)
	}
	if s.NextOffset >= end {
		return nil
	}
	b := stream.NewBatch(r.env.Schema)
	for ; s.NextOffset < end; s.NextOffset++ {
		k := []byte(log[s.NextOffset])
		b.Append(stream.Record{Key: k, Value: k, Topic: s.Topic, Partition: s.Partition, Offset: s.NextOffset, Pos: -1})
	}
	return b
}

func (r *memReader) Splits() []stream.Split { return slices.Clone(r.splits) }

func (r *memReader) Close() error { return nil }

// memEnumerator finds the partitions of one topic.
type memEnumerator struct {
	o       *outside
	topic   string
	bounded bool
}

func (e *memEnumerator) Open(context.Context, stream.Env) error { return nil }

func (e *memEnumerator) Discover(_ context.Context, known []stream.Split) (add []stream.Split, err error) {
	e.o.mu.Lock()
	defer e.o.mu.Unlock()
	for p, log := range e.o.partitions[e.topic] {
		if slices.ContainsFunc(known, func(s stream.Split) bool { return int(s.Partition) == p }) {
			continue
		}
		s := stream.Split{Topic: e.topic, Partition: int32(p), End: stream.Unbounded}
		if e.bounded {
			s.End = int64(len(log))
		}
		add = append(add, s)
	}
	return add, nil
}

func (e *memEnumerator) Report(context.Context, checkpoint.Permit, []stream.Split) error { return nil }
func (e *memEnumerator) Close() error                                                    { return nil }

// memWriter writes transactions of the outside store.
type memWriter struct {
	o        *outside
	env      stream.Env
	rows     []row
	prepared stream.CheckpointID // the newest
}

func (w *memWriter) Open(_ context.Context, env stream.Env, _ []state.Handle) error {
	w.env = env
	return nil
}

func (w *memWriter) Write(_ context.Context, b *stream.Batch, _ sink.Output) error {
	for _, r := range b.Records {
		w.rows = append(w.rows, row{string(r.Key), string(r.Value)})
	}
	b.Release()
	return nil
}

func (w *memWriter) PrepareCommit(_ context.Context, id stream.CheckpointID, _ sink.Output) (sink.Pending, error) {
	p := &memPending{w: w, id: id, rows: w.rows}
	w.rows, w.prepared = nil, id
	return p, nil
}

// Aborted of a checkpoint comes before the next one is prepared: who has one in flight
// prepares both together.
func (w *memWriter) Aborted(_ context.Context, id stream.CheckpointID) error {
	if w.prepared > id {
		w.o.mu.Lock()
		defer w.o.mu.Unlock()
		w.o.broken = append(w.o.broken, fmt.Sprintf("%s: Aborted(%s) came after PrepareCommit(%s)", w.env.Task(), id, w.prepared))
	}
	return nil
}

func (w *memWriter) Published(stream.CheckpointID)      {}
func (w *memWriter) Resolved(stream.CheckpointID, bool) {}
func (w *memWriter) Close() error                       { return nil }

type memPending struct {
	w    *memWriter
	id   stream.CheckpointID
	rows []row
}

func (p *memPending) Finish(ctx context.Context, _ state.Uploader) (sink.Prepared, error) {
	if len(p.rows) == 0 {
		return sink.Prepared{}, nil
	}
	o, env := p.w.o, p.w.env
	if err := env.Clock.Sleep(ctx, time.Duration(env.Rand.IntN(30))*time.Millisecond); err != nil {
		return sink.Prepared{}, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fenced[env.Attempt] {
		return sink.Prepared{}, stream.Errorf(stream.Fenced, "mem.fenced", "prepare", "", "attempt %d is fenced", env.Attempt)
	}
	name := fmt.Sprintf("%s-%d-%s", env.Lineage.Short(), env.Attempt, p.id) + env.Task().String()
	o.txns[name] = &memTxn{lane: env.Task(), checkpoint: p.id, attempt: env.Attempt, rows: p.rows, state: "open"}
	return sink.Prepared{Committables: []checkpoint.Committable{{Sink: env.UID, Subtask: env.Subtask, Checkpoint: p.id, Attempt: env.Attempt,
		Kind: "mem", Version: 1, Payload: []byte(name), Rows: int64(len(p.rows))}}}, nil
}

// memCommitter finishes transactions of the outside store.
type memCommitter struct {
	o    *outside
	env  sink.CommitEnv
	slow time.Duration // added to every commit
}

func (c *memCommitter) Open(_ context.Context, env sink.CommitEnv) error { c.env = env; return nil }

func (c *memCommitter) Probe(_ context.Context, cs []checkpoint.Committable, _ time.Time) (out []sink.Probed, err error) {
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	for i := range cs {
		p := sink.Probed{Status: sink.Gone, Marker: c.o.markers[cs[i].Lane()]}
		if t := c.o.txns[string(cs[i].Payload)]; t != nil && t.state == "open" {
			p.Status = sink.Open
		} else if p.Marker >= cs[i].Checkpoint {
			p.Status = sink.Committed
		}
		out = append(out, p)
	}
	return out, nil
}

func (c *memCommitter) Marker(_ context.Context, subtask int) (stream.CheckpointID, error) {
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	return c.o.markers[stream.TaskID{UID: c.env.UID, Subtask: subtask}], nil
}

func (c *memCommitter) Commit(ctx context.Context, p checkpoint.Permit, k checkpoint.Committable) (sink.Result, error) {
	if !p.Covers(&k) {
		return sink.Result{}, fmt.Errorf("permit %s does not cover %s", p.ID(), sink.Name(&k))
	}
	if err := c.env.Clock.Sleep(ctx, 2*time.Millisecond+c.slow); err != nil {
		return sink.Result{}, err
	}
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	t := c.o.txns[string(k.Payload)]
	c.o.commits++
	switch {
	case t == nil || t.state == "aborted":
		return sink.Result{Outcome: sink.Lost, Detail: "aborted"}, nil
	case t.state == "committed":
		return sink.Result{Outcome: sink.Already}, nil
	case c.o.commits%5 == 0:
		return sink.Result{Outcome: sink.Transient}, nil
	}
	if m := c.o.markers[t.lane]; m >= k.Checkpoint {
		return sink.Result{}, fmt.Errorf("I5 violated: %s committed after %s", k.Checkpoint, m)
	}
	t.state = "committed"
	c.o.markers[t.lane] = k.Checkpoint
	c.o.committed = append(c.o.committed, t.rows...)
	c.o.sinks[c.env.UID] = append(c.o.sinks[c.env.UID], t.rows...)
	return sink.Result{Outcome: sink.Done}, nil
}

func (c *memCommitter) Fence(ctx context.Context, owners []stream.Attempt, keep []checkpoint.Committable) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	for name, t := range c.o.txns {
		kept := slices.ContainsFunc(keep, func(k checkpoint.Committable) bool { return string(k.Payload) == name })
		if slices.Contains(owners, t.attempt) && t.lane.UID == c.env.UID && !kept && t.state == "open" {
			t.state = "aborted"
		}
	}
	for _, a := range owners {
		c.o.fenced[a] = true
	}
	return nil
}

func (c *memCommitter) Inspect(context.Context) ([]sink.InDoubt, error) { return nil, nil }
func (c *memCommitter) Close() error                                    { return nil }

// slow takes its time, each subtask another one, so that barriers do not come at
// once.
type slow struct{ env transform.Env }

func (s *slow) Open(_ context.Context, env transform.Env) error { s.env = env; return nil }

func (s *slow) Process(ctx context.Context, b *stream.Batch, out transform.Output) error {
	if s.env.Rand.IntN(3) == 0 {
		d := time.Duration(s.env.Rand.IntN(1+20*s.env.Subtask)) * time.Millisecond
		if err := s.env.Clock.Sleep(ctx, d); err != nil {
			return err
		}
	}
	b.Retain()
	out.EmitBatch(b)
	return nil
}

func (s *slow) Close() error { return nil }

// counter counts records per key and emits every count.
type counter struct {
	keyed state.Keyed
	keys  [][]byte
	hash  []uint64
	refs  []state.Ref
}

func (c *counter) Open(_ context.Context, env transform.Env) error { c.keyed = env.Keyed; return nil }

func (c *counter) Process(ctx context.Context, b *stream.Batch, out transform.Output) error {
	c.keys, c.hash = c.keys[:0], c.hash[:0]
	for i := range b.Records {
		c.keys, c.hash = append(c.keys, b.Records[i].Group), append(c.hash, b.Records[i].Hash)
	}
	c.refs = make([]state.Ref, len(c.keys))
	if err := c.keyed.Batch(ctx, c.keys, c.hash, c.refs); err != nil {
		return err
	}
	d := b.Derive(b.Schema)
	for i := range b.Records {
		v, _ := c.refs[i].Get()
		n, _ := strconv.Atoi(string(v))
		text := strconv.Itoa(n + 1)
		c.refs[i].Set([]byte(text))
		r := b.Records[i]
		r.Value = d.Copy([]byte(text))
		d.Append(r)
	}
	out.EmitBatch(d)
	return nil
}

func (c *counter) Close() error                    { return nil }
func (c *counter) Descriptors() []state.Descriptor { return counterState }

var counterState = []state.Descriptor{{Name: "n", Kind: "value", Serializer: "text/1"}}

// byKey distributes by the record's key.
type byKey struct{}

func (byKey) Key(b *stream.Batch, reject func(int, error)) error {
	for i := range b.Records {
		r := &b.Records[i]
		r.Group, r.Hash = r.Key, stream.Hash(r.Key)
	}
	return nil
}
