package pipeline

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"etl/checkpoint"
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
			skipped += c.Skipped.Load()
		}
	}
	switch {
	case policy == Fail && (err == nil || stream.ClassOf(err) != stream.Failed):
		t.Errorf("the job ended with %v, it should have failed for good", err)
	case policy == Skip && (err != nil || skipped != 2 || len(s.out.committed) != 3):
		t.Errorf("error %v, %d skipped, %d rows", err, skipped, len(s.out.committed))
	}
}
