package pipeline

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"etl/checkpoint/memstore"
	"etl/source"
)

// TestStatusSaysWhatFails: while the storage is full, the status says so all the time, also
// in the attempts that follow. A job that was asked to stop between two of them drains in
// the next. Nothing of that is left when it has ended.
func TestStatusSaysWhatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 1)
		g := s.graph()
		g.Node("in").Source.Bounded = false
		g.Node("in").Source.NewEnumerator = func() source.Enumerator { return &memEnumerator{o: s.out, topic: "in"} }
		j, err := NewJob(g, s.options())
		if err != nil {
			t.Fatal(err)
		}
		var full atomic.Bool
		s.store.Inject(func(c memstore.Call) (v memstore.Verdict) {
			if full.Load() && (c.Op == "put" || c.Op == "create") && !strings.HasPrefix(c.Name, "log/") {
				v.Err, v.Lost = errors.New("no space left on device"), true
			}
			return v
		})
		done := make(chan error, 1)
		go func() { done <- j.Run(context.Background()) }()
		time.Sleep(110 * time.Millisecond)
		full.Store(true)
		look := func() Status {
			time.Sleep(time.Millisecond)
			synctest.Wait()
			return j.Status()
		}
		for look().Failing < 2 {
		}
		full.Store(false)
		st := look()
		for ; st.Failing > 0; st = look() {
		}
		if st.Error != "" || st.Phase != "running" {
			t.Errorf("once a checkpoint is published: %+v", st)
		}
		full.Store(true)
		looks := 0
		for st := look(); st.Restarts < 2 || st.Phase != "restarting"; st = look() {
			if looks++; st.Failing > 0 && !strings.Contains(st.Error, "no space left on device") || looks > 10_000 {
				t.Errorf("while it fails: %+v", st)
				break
			}
		}
		full.Store(false)
		j.Stop()
		looks = 0
		for st := look(); st.Phase != "stopped" && st.Phase != "failed"; st = look() {
			if looks++; st.Phase == "running" || looks > 10_000 {
				t.Errorf("while it stops: %+v", st)
				break
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		j.Stop() // too late
		if st := j.Status(); st.Error != "" || st.Phase != "stopped" || st.Failing != 0 || st.Confirmed != st.Published {
			t.Errorf("at the end: %+v", st)
		}
	})
}
