package pipeline

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"etl/checkpoint"
	"etl/sink"
	"etl/source"
	"etl/stream"
	"etl/transform"
)

// event is what one of two partitions does, ten virtual milliseconds after the event
// before it: it sends el, or the next of its records when el is nil.
type event struct {
	partition int32
	el        stream.Element
}

// TestWatermarkOfTwoInputs: a task behind a keyed exchange has the least watermark of
// those inputs that are active. An idle one does not hold it back, counts again with
// its next batch, and no more once it has ended. Operators in the chain and behind
// another exchange see every rise, in its place among the records.
func TestWatermarkOfTwoInputs(t *testing.T) {
	at := func(ms int64) stream.Element { return stream.Watermark{Time: ms} }
	script := []event{
		{0, nil}, {1, nil},
		{0, at(100)}, // the other has none yet
		{1, at(50)}, {0, at(200)},
		{1, stream.Idle{}}, {0, at(300)},
		{1, nil}, {0, at(400)}, // held back: 1 is active, at 50
		{1, at(350)}, {1, at(500)},
		{0, at(450)}, {0, at(420)}, // never falls
		{1, at(510)}, {0, stream.Idle{}}, {1, stream.Idle{}}, {0, nil}, {0, at(520)},
		{1, nil}, {0, at(600)}, {1, stream.EndOfInput{}}, // at 510 until it ends
		{0, at(700)}, {0, stream.EndOfInput{}},
	}
	want := []string{"a0", "b0", "<50", "<200", "<300", "b1", "<350", "<400", "<450", "<510", "a1", "<520", "b2", "<600", "<700"}
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 1)
		s.out.partitions["in"] = [][]string{{"a0", "a1"}, {"b0", "b1", "b2"}}
		seen := &sightings{by: map[string][]string{}}
		s.build = func() *Graph { return s.watermarkGraph(script, seen) }
		o := s.options()
		o.Policy = checkpoint.Policy{Interval: time.Hour, Timeout: time.Hour}
		j, err := NewJob(s.graph(), o)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		for _, task := range []string{"first/0", "chained/0"} {
			if got := seen.by[task]; !slices.Equal(got, want) {
				t.Errorf("%s saw %q\nwant %q", task, got, want)
			}
		}
		marks := slices.DeleteFunc(slices.Clone(want), func(what string) bool { return what[0] != '<' })
		for _, task := range []string{"behind/0", "behind/1"} {
			got := slices.DeleteFunc(seen.by[task], func(what string) bool { return what[0] != '<' })
			if !slices.Equal(got, marks) {
				t.Errorf("%s saw %q\nwant %q", task, got, marks)
			}
		}
		s.equal("rows", s.out.sinks["out"], []row{{"a0", "a0"}, {"a1", "a1"}, {"b0", "b0"}, {"b1", "b1"}, {"b2", "b2"}})
	})
}

// watermarkGraph is two source tasks =rekey=> first, chained =rekey=> two tasks of
// behind and the sink.
func (s *simulation) watermarkGraph(script []event, seen *sightings) *Graph {
	watcher := func() transform.Operator { return &watcher{seen: seen} }
	key := func() Keyer { return byKey{} }
	b := New("sim").Parallelism(2).MaxParallelism(16)
	b.Source("in", scripted{memSource{s.out}, script}, &stream.Schema{}).
		KeyBy("key", key).Apply("first", opOf(watcher)).Parallelism(1).
		Apply("chained", opOf(watcher)).Parallelism(1).
		KeyBy("key", key).Apply("behind", opOf(watcher)).
		Sink("out", memSink{s.out, func() sink.Writer { return &memWriter{o: s.out} }})
	g, err := b.Graph()
	if err != nil {
		s.t.Fatal(err)
	}
	return g
}

// sightings are the records and watermarks that operators have seen, by task.
type sightings struct {
	mu sync.Mutex
	by map[string][]string
}

func (s *sightings) add(task stream.TaskID, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by[task.String()] = append(s.by[task.String()], what)
}

// watcher passes records on and keeps what it has seen.
type watcher struct {
	env  transform.Env
	seen *sightings
}

func (w *watcher) Open(_ context.Context, env transform.Env) error { w.env = env; return nil }
func (w *watcher) Close() error                                    { return nil }

func (w *watcher) Process(_ context.Context, b *stream.Batch, out transform.Output) error {
	for i := range b.Records {
		w.seen.add(w.env.Task(), string(b.Records[i].Key))
	}
	b.Retain()
	out.EmitBatch(b)
	return nil
}

func (w *watcher) OnWatermark(_ context.Context, wm stream.Watermark, _ transform.Output) (bool, error) {
	w.seen.add(w.env.Task(), fmt.Sprint("<", wm.Time))
	return false, nil
}

// scripted is a source of two partitions whose readers follow a script.
type scripted struct {
	memSource
	script []event
}

func (s scripted) NewReader() source.Reader {
	return &scriptedReader{memReader: memReader{o: s.o, topic: "in", batch: 1}, script: s.script}
}

type scriptedReader struct {
	memReader
	script []event
	at     int
}

func (r *scriptedReader) Poll(ctx context.Context) (stream.Element, error) {
	split := &r.splits[0]
	for r.script[r.at].partition != split.Partition {
		r.at++
	}
	due := r.due.Add(time.Duration(r.at+1) * 10 * time.Millisecond) // r.due is when it was opened
	select {
	case <-time.After(due.Sub(r.env.Clock.Now())):
	case <-r.wake:
		return nil, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	r.at++
	if el := r.script[r.at-1].el; el != nil {
		return el, nil
	}
	return r.read(split), nil
}
