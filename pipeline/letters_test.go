package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"etl/sink"
	"etl/source"
	"etl/state"
	"etl/stream"
	"etl/transform"
)

// TestDeadLetters runs a job whose records are found bad in every place there is: by
// an operator, by a key, in Write and in Finish of a sink. It dies at random points,
// over and over, and goes on with another parallelism. At last each bad record is a dead
// letter once, as it was read, and each good one is a row once.
func TestDeadLetters(t *testing.T) {
	first, n := uint64(1), uint64(*seeds)
	if *seed != 0 {
		first, n = *seed, 1
	}
	for s := first; s < first+n; s++ {
		t.Run(fmt.Sprint("seed=", s), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { lettered(newSimulation(t, s)) })
		})
	}
}

// The keys that are bad, by who finds out, and with which code.
var badKeys = map[string]string{"k1": "check test.op", "k2": "keyed test.key", "k3": "out test.write", "k4": "out test.finish"}

func lettered(s *simulation) {
	s.build = func() *Graph { return s.letterGraph() }
	for starts := 0; ; starts++ {
		if starts > 60 {
			s.t.Fatalf("seed %d: the job does not get to its end", s.seed)
		}
		s.par = 1 + s.r.IntN(3)
		if err := s.start(starts < 3+s.r.IntN(12)); err == nil {
			break
		} else if !errors.Is(err, errCrash) {
			s.t.Fatalf("seed %d: start %d: %v", s.seed, starts, err)
		}
	}
	var rows, letters []row
	for p, log := range s.out.partitions["in"] {
		for offset, key := range log {
			if by := badKeys[key]; by != "" {
				letters = append(letters, row{fmt.Sprintf("in/%d@%d", p, offset), by + " " + key})
			} else {
				rows = append(rows, row{key, "m" + key})
			}
		}
	}
	s.equal("rows", s.out.sinks["out"], rows)
	s.equal("dead letters", s.out.sinks["letters"], letters)
	s.t.Logf("%d rows, %d letters, died at %v", len(rows), len(letters), s.crashes)
}

func (s *simulation) equal(what string, got, want []row) {
	s.t.Helper()
	order := func(a, b row) int { return strings.Compare(a.key+" "+a.value, b.key+" "+b.value) }
	got = slices.Clone(got)
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if slices.Equal(got, want) {
		return
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			s.t.Fatalf("seed %d: %s: %d, want %d; sorted, the first difference is %v, want %v (crashes %v)", s.seed, what, len(got), len(want), got[i], want[i], s.crashes)
		}
	}
	s.t.Fatalf("seed %d: %s: %d, want %d (crashes %v)", s.seed, what, len(got), len(want), s.crashes)
}

// letterGraph is source -> check -> change -> rekey -> sink, and a sink for the dead
// letters of all of them.
func (s *simulation) letterGraph() *Graph {
	b := New("sim").Parallelism(s.par).MaxParallelism(16)
	good := b.Source("in", memSource{s.out}, &stream.Schema{}).Apply("check", opOf(func() transform.Operator { return &checking{} }))
	checked := good.DeadLetters()
	changed := good.Apply("change", opOf(func() transform.Operator {
		return transform.MapFunc(&stream.Schema{}, func(dst []byte, r *stream.Record) ([]byte, error) {
			return append(append(dst, 'm'), r.Value...), nil
		})
	}))
	byKey := changed.KeyBy("key", func() Keyer { return codedKey{} }).Apply("keyed", opOf(func() transform.Operator {
		return transform.FilterFunc(func(*stream.Record) (bool, error) { return true, nil })
	}))
	keyless := byKey.DeadLetters()
	out := byKey.Sink("out", memSink{s.out, func() sink.Writer { return &pickyWriter{memWriter: memWriter{o: s.out}} }})
	out.DeadLetters().Union(checked, keyless).Sink("letters", memSink{s.out, func() sink.Writer { return &letterWriter{memWriter{o: s.out}} }})
	g, err := b.Graph()
	if err != nil {
		s.t.Fatal(err)
	}
	return g
}

// opOf describes an operator that keeps the schema.
type opOf func() transform.Operator

func (f opOf) New() transform.Operator                                { return f() }
func (f opOf) OutputSchema(in *stream.Schema) (*stream.Schema, error) { return in, nil }

type memSource struct{ o *outside }

func (m memSource) NewEnumerator() source.Enumerator {
	return &memEnumerator{o: m.o, topic: "in", bounded: true}
}
func (m memSource) NewReader() source.Reader {
	return &memReader{o: m.o, topic: "in", batch: 7, pace: 3 * time.Millisecond}
}
func (m memSource) Bounded() bool { return true }

type memSink struct {
	o    *outside
	make func() sink.Writer
}

func (m memSink) NewWriter() sink.Writer       { return m.make() }
func (m memSink) NewCommitter() sink.Committer { return &memCommitter{o: m.o} }
func (m memSink) Features() sink.Features {
	return sink.Features{Transactional: true, Marker: true, MarkerStays: true}
}

// checking rejects the key k1, and takes its time like slow.
type checking struct{ slow }

func (c *checking) Process(ctx context.Context, b *stream.Batch, out transform.Output) error {
	d := b.Derive(b.Schema)
	for _, r := range b.Records {
		if string(r.Key) == "k1" {
			out.Reject(r, coded("op"))
			continue
		}
		d.Append(r)
	}
	err := c.slow.Process(ctx, d, out)
	d.Release()
	return err
}

func coded(code string) error {
	return stream.Errorf(stream.Failed, "test."+code, "", "", "the record is bad")
}

// codedKey refuses the key k2.
type codedKey struct{}

func (codedKey) Key(b *stream.Batch, reject func(int, error)) error {
	for i := range b.Records {
		r := &b.Records[i]
		r.Group, r.Hash = r.Key, stream.Hash(r.Key)
		if string(r.Key) == "k2" {
			r.Group = nil
			reject(i, coded("key"))
		}
	}
	return nil
}

// letterWriter writes where a letter's record was read, and what is wrong with it.
type letterWriter struct{ memWriter }

func (w *letterWriter) Write(_ context.Context, b *stream.Batch, _ sink.Output) error {
	defer b.Release()
	for i := range b.Records {
		l, ok := stream.OpenLetter(&b.Records[i])
		if !ok || l.Made || b.Schema != stream.LetterSchema {
			return fmt.Errorf("%+v is no letter of a record that was read", b.Records[i])
		}
		w.rows = append(w.rows, row{fmt.Sprintf("%s/%d@%d", l.Topic, l.Partition, l.Offset), fmt.Sprintf("%s %s %s", l.Component, l.Code, l.Value)})
	}
	return nil
}

// pickyWriter refuses the key k3 in Write, and finds in Finish that k4 is bad: those
// go into its state and come out at the next PrepareCommit, as sink.Prepared says.
type pickyWriter struct {
	memWriter
	originals []stream.Record // of the rows k4 since the last PrepareCommit

	mu    sync.Mutex
	found []stream.Record // by Finish, and not yet emitted
}

func (w *pickyWriter) Open(ctx context.Context, env stream.Env, restored []state.Handle) error {
	for _, h := range restored {
		var rs []stream.Record
		if err := json.Unmarshal(h.Bytes, &rs); err != nil {
			return err
		}
		w.found = append(w.found, rs...)
	}
	return w.memWriter.Open(ctx, env, nil)
}

func (w *pickyWriter) Write(_ context.Context, b *stream.Batch, out sink.Output) error {
	defer b.Release()
	for i := range b.Records {
		r := &b.Records[i]
		switch {
		case string(r.Key) == "k3":
			out.Reject(*r, coded("write"))
		case string(r.Key) == "k4":
			o := r.AsRead()
			w.originals = append(w.originals, stream.Record{Key: bytes.Clone(o.Key), Value: bytes.Clone(o.Value), Topic: o.Topic, Partition: o.Partition, Offset: o.Offset})
		default:
			w.rows = append(w.rows, row{string(r.Key), string(r.Value)})
		}
	}
	return nil
}

func (w *pickyWriter) PrepareCommit(ctx context.Context, id stream.CheckpointID, out sink.Output) (sink.Pending, error) {
	w.mu.Lock()
	found := w.found
	w.found = nil
	w.mu.Unlock()
	for _, r := range found {
		out.Reject(r, coded("finish"))
	}
	p, err := w.memWriter.PrepareCommit(ctx, id, out)
	bad := w.originals
	w.originals = nil
	return &pickyPending{p, w, bad}, err
}

type pickyPending struct {
	sink.Pending
	w   *pickyWriter
	bad []stream.Record
}

func (p *pickyPending) Finish(ctx context.Context, up state.Uploader) (sink.Prepared, error) {
	out, err := p.Pending.Finish(ctx, up)
	if err != nil || len(p.bad) == 0 {
		return out, err
	}
	b, err := json.Marshal(p.bad)
	if err == nil {
		var h state.Handle
		h, err = up.Append(state.Writer, append(b, bytes.Repeat([]byte(" "), len(p.bad)<<14)...)).Wait(ctx) // of three rows on, an object
		out.State, out.More = []state.Handle{h}, true
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.w.found = append(p.w.found, p.bad...)
	return out, err
}

// TestDeadLettersNeedASink: a graph whose dead letters nobody takes would lose them.
func TestDeadLettersNeedASink(t *testing.T) {
	s := newSimulation(t, 1)
	g := s.graph()
	g.Node("slow").OnError = DeadLetter
	errs := errors.Join(g.Validate()...)
	if stream.CodeOf(errs) != "graph.dead_letter" {
		t.Errorf("got %v", errs)
	}
	g.Node("slow").OnError = Skip
	g.Node("out").Inputs = append(g.Node("out").Inputs, Input{From: "slow", Tag: DeadLetterTag})
	if errs := errors.Join(g.Validate()...); stream.CodeOf(errs) != "graph.dead_letter" {
		t.Errorf("got %v", errs)
	}
}
