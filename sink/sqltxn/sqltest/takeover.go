package sqltest

import (
	"context"
	"testing"

	"etl/checkpoint"
	"etl/sink"
	"etl/stream"
)

// Owner is an attempt with its committer.
type Owner struct {
	Attempt   *checkpoint.Attempt
	Committer sink.Committer
}

// Overtaken stops an owner in the middle of its commit, at a fault point where it holds
// the marker and rows. Commits come before fences (V5, V6): its successor ends the session
// and commits. When the stopped one goes on, it finds that it is done.
func Overtaken(t testing.TB, point string, old Owner, permit checkpoint.Permit, c checkpoint.Committable, successor func() Owner) {
	t.Helper()
	stopped, release := Hold(t, point)
	late := make(chan error, 1)
	var r sink.Result
	go func() {
		var err error
		r, err = Commit(context.Background(), old.Committer, permit, c)
		late <- err
	}()
	<-stopped
	next := successor()
	restored, err := next.Attempt.Restored(c.Checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := Commit(context.Background(), next.Committer, restored, c); err != nil || r.Outcome != sink.Done {
		t.Errorf("the successor: %+v, %v", r, err)
	}
	release()
	if err := <-late; err != nil || r.Outcome != sink.Already {
		t.Errorf("who was stopped: %+v, %v", r, err)
	}
	if err := next.Committer.Fence(context.Background(), []stream.Attempt{old.Attempt.Number()}, nil); err != nil {
		t.Error(err)
	}
}
