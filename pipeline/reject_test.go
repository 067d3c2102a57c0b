package pipeline

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"etl/checkpoint"
	"etl/sink"
	"etl/state"
	"etl/stream"
)

// pickyKey refuses the key "bad".
type pickyKey struct{}

func (pickyKey) Key(b *stream.Batch, reject func(int, error)) error {
	for i := range b.Records {
		r := &b.Records[i]
		if string(r.Key) == "bad" {
			r.Group = nil
			reject(i, errors.New("the key is bad"))
			continue
		}
		r.Group, r.Hash = r.Key, stream.Hash(r.Key)
	}
	return nil
}

// TestKeylessRecords: a record without a key is the business of the component that
// asked for the key, whether it is chained or behind an exchange.
func TestKeylessRecords(t *testing.T) {
	for _, par := range []int{1, 2} {
		for _, policy := range []OnError{Fail, Skip} {
			t.Run(fmt.Sprintf("parallelism=%d/%s", par, policy), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { keyless(t, par, policy) })
			})
		}
	}
}

func keyless(t *testing.T, par int, policy OnError) {
	s := newSimulation(t, 1)
	s.par = par
	s.out.partitions["in"] = [][]string{{"a", "bad", "b"}, {"bad", "a"}}
	g := s.graph()
	count := g.Node("count")
	count.OnError = policy
	count.Inputs[0].Key.New = func() Keyer { return pickyKey{} }
	g.Node("slow").OnError = map[OnError]OnError{Fail: Skip, Skip: Fail}[policy] // must not matter
	o := s.options()
	o.Policy = checkpoint.Policy{Interval: time.Hour, Timeout: time.Hour}
	o.Restart.Attempts = NoRestart
	skipped := int64(0)
	counters := map[stream.TaskID]*stream.Counters{}
	o.Listener = &stream.Listener{Task: func(id stream.TaskID, _ string, c *stream.Counters) { counters[id] = c }}
	j, err := NewJob(g, o)
	if err != nil {
		t.Fatal(err)
	}
	err = j.Run(context.Background())
	for id, c := range counters {
		if id.UID == "count" {
			skipped += c.Rejects.Counts()[stream.Reject{Action: "skip", Code: stream.CodeRejected}]
		}
	}
	switch {
	case policy == Fail && (err == nil || stream.ClassOf(err) != stream.Failed):
		t.Errorf("the job ended with %v, it should have failed for good", err)
	case policy == Skip && (err != nil || skipped != 2 || len(s.out.committed) != 3):
		t.Errorf("error %v, %d skipped, %d rows", err, skipped, len(s.out.committed))
	}
}

// afterthought finds rows bad only when it has written them: it rejects them at the next
// barrier, if there is one.
type afterthought struct {
	memWriter
	bad []stream.Record
}

func (w *afterthought) Write(ctx context.Context, b *stream.Batch, out sink.Output) error {
	for i := range b.Records {
		if r := &b.Records[i]; string(r.Key) == "bad" {
			w.bad = append(w.bad, stream.Record{Key: []byte("bad"), Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Pos: -1})
		}
	}
	return w.memWriter.Write(ctx, b, out)
}

func (w *afterthought) PrepareCommit(_ context.Context, _ stream.CheckpointID, out sink.Output) (sink.Pending, error) {
	if len(w.rows) == 0 {
		for _, r := range w.bad {
			out.Reject(r, errors.New("found bad when it was written"))
		}
		w.bad = nil
	}
	w.rows = nil
	return foundBad(len(w.bad)), nil
}

// foundBad is the number of rows that are to be rejected at the next barrier.
type foundBad int

func (n foundBad) Finish(context.Context, state.Uploader) (sink.Prepared, error) {
	return sink.Prepared{More: n > 0}, nil
}

// TestRejectsAtTheEndWithoutCheckpoints: what the end of a job without checkpoints finds
// bad is rejected all the same.
func TestRejectsAtTheEndWithoutCheckpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 1)
		s.out.partitions["in"] = [][]string{{"a", "bad", "b"}, {"bad", "a"}}
		g := s.graph()
		out := g.Node("out")
		out.OnError = Skip
		out.Sink.NewWriter = func() sink.Writer { return &afterthought{memWriter: memWriter{o: s.out}} }
		o := s.options()
		o.Policy = checkpoint.Policy{Mode: checkpoint.None}
		o.Restart.Attempts = NoRestart
		skipped := []*stream.Counters{}
		o.Listener = &stream.Listener{Task: func(id stream.TaskID, _ string, c *stream.Counters) {
			if id.UID == "out" {
				skipped = append(skipped, c)
			}
		}}
		j, err := NewJob(g, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		n := int64(0)
		for _, c := range skipped {
			n += c.Rejects.Counts()[stream.Reject{Action: "skip", Code: stream.CodeRejected}]
		}
		if n != 2 {
			t.Errorf("%d rows are skipped, want 2", n)
		}
	})
}
