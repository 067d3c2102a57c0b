package pipeline_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"etl/checkpoint"
	"etl/checkpoint/memstore"
	"etl/pipeline"
	"etl/sink"
	"etl/source"
	"etl/state"
	"etl/state/keyed"
	"etl/stream"
	"etl/transform"
)

// A word count whose source, sink and one operator are the program's own: a
// Reader over lines in memory, an Operator that makes words of them, and a Writer
// that keeps what was committed. The count between them is the engine's.
func Example() {
	shelf := &shelf{}
	b := pipeline.New("words")
	b.Source("lines", lines{"the quick brown fox", "the lazy dog", "the end"}, nil).
		Apply("words", words{}).
		KeyBy("word", func() pipeline.Keyer { return transform.RecordKey() }).
		Apply("count", transform.CountText(transform.OnCheckpoint)).
		Sink("shelf", shelf)
	graph, err := b.Graph()
	if err != nil {
		fmt.Println(err)
		return
	}
	job, err := pipeline.NewJob(graph, pipeline.Options{
		World:   stream.SystemWorld(nil),
		Storage: memstore.New("words"), // filestore.Open(world, dir) in a real program
		NewBackend: func(e pipeline.BackendEnv) (state.Backend, error) { // pebbledb.New for state larger than memory
			return keyed.NewMemory(keyed.MemoryConfig{Lineage: e.Lineage, MaxParallelism: e.MaxParallelism}), nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := job.Run(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	for _, row := range shelf.sorted() {
		fmt.Println(row)
	}
	// Output:
	// brown 1
	// dog 1
	// end 1
	// fox 1
	// lazy 1
	// quick 1
	// the 3
}

// words is an operator: one record for each word of a line, with the word as key.
type words struct{}

func (words) OutputSchema(*stream.Schema) (*stream.Schema, error) {
	return &stream.Schema{Format: stream.Raw}, nil
}

func (words) New() transform.Operator {
	return transform.FlatMapFunc(&stream.Schema{Format: stream.Raw}, func(r *stream.Record, emit func(stream.Record)) error {
		for _, w := range strings.Fields(string(r.Value)) {
			d := r.Derived()
			d.Key = []byte(w)
			emit(d)
		}
		return nil
	})
}

// lines is a source: one split, whose offsets are indexes.
type lines []string

func (l lines) NewEnumerator() source.Enumerator { return lineEnumerator{l} }
func (l lines) NewReader() source.Reader         { return &lineReader{lines: l} }
func (l lines) Bounded() bool                    { return true }

type lineEnumerator struct{ lines }

func (e lineEnumerator) Open(context.Context, stream.Env) error { return nil }

// Discover fixes begin and end at the job's very first start.
func (e lineEnumerator) Discover(_ context.Context, known []stream.Split) ([]stream.Split, error) {
	if len(known) > 0 {
		return nil, nil
	}
	return []stream.Split{{Topic: "lines", End: int64(len(e.lines))}}, nil
}

func (e lineEnumerator) Report(context.Context, checkpoint.Permit, []stream.Split) error { return nil }
func (e lineEnumerator) Close() error                                                    { return nil }

type lineReader struct {
	lines lines
	env   source.Env
	split stream.Split
}

func (r *lineReader) Open(_ context.Context, env source.Env, splits []stream.Split) error {
	r.env, r.split = env, splits[0]
	return nil
}

// Poll returns a batch, then the end.
func (r *lineReader) Poll(context.Context) (stream.Element, error) {
	if r.split.Finished() {
		return stream.EndOfInput{}, nil
	}
	b := stream.NewBatch(r.env.Schema)
	b.Append(stream.Record{Value: []byte(r.lines[r.split.NextOffset]), Topic: r.split.Topic, Offset: r.split.NextOffset, Pos: -1})
	r.split.NextOffset++
	return b, nil
}

func (r *lineReader) Assign([]stream.Split) error { return nil }
func (r *lineReader) Wake()                       {}
func (r *lineReader) Splits() []stream.Split      { return []stream.Split{r.split} }
func (r *lineReader) Close() error                { return nil }

// shelf is a sink: rows wait with their checkpoint and are put up by its commit.
type shelf struct {
	mu      sync.Mutex
	waiting map[stream.CheckpointID][]string
	up      []string
}

func (s *shelf) NewWriter() sink.Writer       { return &shelfWriter{shelf: s} }
func (s *shelf) NewCommitter() sink.Committer { return shelfCommitter{s} }
func (s *shelf) Features() sink.Features      { return sink.Features{Transactional: true} }

func (s *shelf) sorted() []string {
	slices.Sort(s.up)
	return s.up
}

type shelfWriter struct {
	shelf *shelf
	env   stream.Env
	rows  []string
}

func (w *shelfWriter) Open(_ context.Context, env stream.Env, _ []state.Handle) error {
	w.env = env
	return nil
}

func (w *shelfWriter) Write(_ context.Context, b *stream.Batch, _ sink.Output) error {
	for _, r := range b.Records {
		w.rows = append(w.rows, string(r.Key)+" "+string(r.Value))
	}
	b.Release()
	return nil
}

// PrepareCommit seals the rows of the checkpoint; the slow part hands them over.
func (w *shelfWriter) PrepareCommit(_ context.Context, id stream.CheckpointID, _ sink.Output) (sink.Pending, error) {
	p := &shelfPending{w: w, id: id, rows: w.rows}
	w.rows = nil
	return p, nil
}

func (w *shelfWriter) Published(stream.CheckpointID)                      {}
func (w *shelfWriter) Resolved(stream.CheckpointID, bool)                 {}
func (w *shelfWriter) Aborted(context.Context, stream.CheckpointID) error { return nil }
func (w *shelfWriter) Close() error                                       { return nil }

type shelfPending struct {
	w    *shelfWriter
	id   stream.CheckpointID
	rows []string
}

func (p *shelfPending) Finish(context.Context, state.Uploader) (sink.Prepared, error) {
	if len(p.rows) == 0 {
		return sink.Prepared{}, nil
	}
	s := p.w.shelf
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		s.waiting = map[stream.CheckpointID][]string{}
	}
	s.waiting[p.id] = p.rows
	return sink.Prepared{Committables: []checkpoint.Committable{{Sink: p.w.env.UID, Subtask: p.w.env.Subtask, Checkpoint: p.id,
		Attempt: p.w.env.Attempt, Kind: "shelf", Version: 1, Rows: int64(len(p.rows))}}}, nil
}

// shelfCommitter commits from plain data: any process that reaches the shelf could.
type shelfCommitter struct{ shelf *shelf }

func (c shelfCommitter) Open(context.Context, sink.CommitEnv) error { return nil }

func (c shelfCommitter) Commit(_ context.Context, p checkpoint.Permit, k checkpoint.Committable) (sink.Result, error) {
	if !p.Covers(&k) {
		return sink.Result{}, fmt.Errorf("no permit for %s", k.Checkpoint)
	}
	s := c.shelf
	s.mu.Lock()
	defer s.mu.Unlock()
	rows, ok := s.waiting[k.Checkpoint]
	if !ok {
		return sink.Result{Outcome: sink.Already}, nil
	}
	s.up = append(s.up, rows...)
	delete(s.waiting, k.Checkpoint)
	return sink.Result{Outcome: sink.Done}, nil
}

func (c shelfCommitter) Probe(_ context.Context, cs []checkpoint.Committable, _ time.Time) ([]sink.Probed, error) {
	out := make([]sink.Probed, len(cs))
	for i := range cs {
		out[i].Status = sink.Committed
		if _, waits := c.shelf.waiting[cs[i].Checkpoint]; waits {
			out[i].Status = sink.Open
		}
	}
	return out, nil
}

func (c shelfCommitter) Marker(context.Context, int) (stream.CheckpointID, error) {
	return stream.NoCheckpoint, nil
}

func (c shelfCommitter) Fence(context.Context, []stream.Attempt, []checkpoint.Committable) error {
	return nil
}
func (c shelfCommitter) Inspect(context.Context) ([]sink.InDoubt, error) { return nil, nil }
func (c shelfCommitter) Close() error                                    { return nil }
