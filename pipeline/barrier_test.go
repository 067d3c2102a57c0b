package pipeline

import (
	"context"
	"log/slog"
	"testing"

	"etl/checkpoint"
	"etl/stream"
)

// TestAbortIsHeardBeforeTheNextBarrier: the news that a checkpoint was aborted, and the
// barrier of the next one, reach a task in the same moment.
func TestAbortIsHeardBeforeTheNextBarrier(t *testing.T) {
	world := stream.SystemWorld(slog.New(slog.DiscardHandler))
	env := stream.Env{World: world, UID: "out", Counters: &stream.Counters{}}
	first, second := stream.NewCheckpointID(1, 1), stream.NewCheckpointID(1, 2)
	out := newOutside()
	w := &memWriter{o: out, env: env, prepared: first}
	k := &task{id: env.Task(), env: env, ctl: newControl(), blocked: make([]bool, 1), prepared: []stream.CheckpointID{first},
		aligner: checkpoint.NewAligner(1, true), links: []*link{{writer: w, env: env, out: &output{}}}}
	k.persist = newPersister(k, nil, nil)
	k.persist.end(first)

	k.ctl.tell(aborted{first})
	if err := k.barrier(context.Background(), 0, stream.Barrier{ID: second}); err != nil {
		t.Fatal(err)
	}
	if err := k.listen(context.Background()); err != nil {
		t.Fatal(err)
	}
	if w.prepared != second || len(k.given) > 0 {
		t.Errorf("prepared %s, not told of %s", w.prepared, k.given)
	}
	for _, what := range out.broken {
		t.Error(what)
	}
}
