package postgres

import (
	"context"
	"log/slog"
	"testing"

	"etl/sink"
	"etl/sink/sqltxn"
	"etl/stream"
)

// TestAbortedEpochWithoutRows: an epoch without rows keeps nobody waiting, so a later
// checkpoint can be published after it was aborted and before the next Finish. Nothing of
// it is joined then, and it is replaced all the same. Without rows no server is asked.
func TestAbortedEpochWithoutRows(t *testing.T) {
	w := &Writer{sink: &Sink{}, plan: &plan{Choice: Choice{Strategy: Prepared}, target: &sqltxn.Target{Table: &sqltxn.Table{Schema: "public", Name: "t"}}}, moved: make(chan struct{})}
	w.env = stream.Env{World: stream.SystemWorld(slog.New(slog.DiscardHandler)), UID: "out", Attempt: 1, Counters: new(stream.Counters)}
	w.mem = sqltxn.NewMemory(w.env.FS, 1<<20, t.TempDir(), "rows")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	id := func(n uint32) stream.CheckpointID { return stream.NewCheckpointID(1, n) }
	finish := func(n uint32) sink.Prepared {
		t.Helper()
		p, err := w.PrepareCommit(ctx, id(n), nil)
		if err != nil {
			t.Fatal(err)
		}
		out, err := p.Finish(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	finish(1)
	finish(2)
	if err := w.Aborted(ctx, id(1)); err != nil {
		t.Fatal(err)
	}
	w.Published(id(2)) // and not resolved yet
	if out := finish(3); len(out.Committables) > 0 || len(out.Replaces) != 1 || out.Replaces[0] != id(1) {
		t.Errorf("checkpoint 3 has %d committables and replaces %v, want none, and checkpoint 1", len(out.Committables), out.Replaces)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.epochs); n != 2 {
		t.Errorf("%d epochs are remembered, want those that may be committed: 2", n)
	}
}
