package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"etl/checkpoint"
	"etl/checkpoint/memstore"
	"etl/state"
	"etl/stream"
)

// job is a job whose checkpoints share objects the way keyed state does: a base,
// a chain of segments, and something of their own.
type job struct {
	t    *testing.T
	st   *memstore.Store
	a    *checkpoint.Attempt
	r    *checkpoint.Retention
	n    uint32
	base int
	open []checkpoint.Committable // what checkpoints list as prepared
}

func startJob(t *testing.T, st *memstore.Store) *job {
	t.Helper()
	world := stream.World{Clock: &tickless{}, Entropy: named{t.Name()}, Log: slog.New(slog.DiscardHandler)}
	a, err := checkpoint.OpenAttempt(context.Background(), st, checkpoint.AttemptOptions{World: world})
	if err != nil {
		t.Fatal(err)
	}
	return &job{t: t, st: st, a: a, r: checkpoint.NewRetention(a, st, 3)}
}

// publish takes a checkpoint; every fourth one materializes a base.
func (j *job) publish() {
	j.t.Helper()
	j.n++
	if j.n%4 == 1 {
		j.base = int(j.n)
	}
	id := stream.NewCheckpointID(j.a.Number(), j.n)
	m := &checkpoint.Metadata{Version: checkpoint.MetadataVersion, Lineage: j.a.Lineage(), ID: id, Committables: slices.Clone(j.open)}
	list := func(role state.Role, kind string, n int, from, to stream.CheckpointID) {
		name := checkpoint.ObjectName(j.a.Lineage(), j.a.Number(), fmt.Sprint(kind, n))
		if _, err := j.st.Stat(context.Background(), name); err != nil {
			if _, _, err := j.st.Create(context.Background(), name, bytes.NewReader([]byte(name))); err != nil {
				j.t.Fatal(err)
			}
		}
		h := state.Handle{Role: role, Object: name, Size: int64(len(name)), From: from, To: to}
		m.Tasks = append(m.Tasks, checkpoint.TaskState{TaskID: stream.TaskID{UID: "count", Subtask: len(m.Tasks)}, Handles: []state.Handle{h}})
	}
	list(state.Operator, "base", j.base, 0, 0)
	for s := j.base + 1; s <= int(j.n); s++ {
		list(state.Operator, "segment", s, 0, 0)
	}
	list(state.Operator, "own", int(j.n), 0, 0)
	if _, err := j.a.Publish(context.Background(), m); err != nil {
		j.t.Fatal(err)
	}
}

// restorable fails the test unless every checkpoint that the log shows has all
// its objects, and returns their number.
func restorable(t *testing.T, st checkpoint.Storage) int {
	t.Helper()
	h, err := checkpoint.ReadHistory(context.Background(), st)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range h.Published() {
		if err := checkpoint.VerifyObjects(context.Background(), st, m); err != nil {
			t.Fatalf("checkpoint %s is published and cannot be restored: %v", m.ID, err)
		}
	}
	return len(h.Published())
}

// TestDeletionCutAtEveryStep: whenever the process dies while it deletes, or one
// deletion fails, all published checkpoints can be restored, and a later attempt
// cleans up the rest.
func TestDeletionCutAtEveryStep(t *testing.T) {
	for _, once := range []bool{false, true} {
		t.Run(fmt.Sprintf("once=%v", once), func(t *testing.T) { cutDeletions(t, once) })
	}
}

func cutDeletions(t *testing.T, once bool) {
	dead := errors.New("the storage does not answer")
	for cut := 0; ; cut++ {
		st := memstore.New(t.Name())
		j := startJob(t, st)
		deletes, died := 0, false
		st.Inject(func(c memstore.Call) memstore.Verdict {
			if c.Op != "delete" {
				return memstore.Verdict{}
			}
			deletes++
			if deletes == cut+1 || died && !once {
				died = true
				return memstore.Verdict{Err: dead, Lost: true}
			}
			return memstore.Verdict{}
		})
		for range 10 {
			j.publish()
			if err := j.r.Run(context.Background()); err != nil && !errors.Is(err, dead) {
				t.Fatal(err)
			}
			restorable(t, st)
		}
		st.Inject(nil)
		next := startJob(t, st)
		if err := errors.Join(next.r.Sweep(context.Background()), next.r.Run(context.Background())); err != nil {
			t.Fatal(err)
		}
		if n := restorable(t, st); n != 3 {
			t.Fatalf("cut %d: %d checkpoints are left, want 3", cut, n)
		}
		wantNoOrphans(t, st)
		if !died {
			t.Logf("cut at each of %d deletions", cut)
			return
		}
	}
}

// wantNoOrphans: what no published checkpoint reaches is gone.
func wantNoOrphans(t *testing.T, st checkpoint.Storage) {
	t.Helper()
	h, err := checkpoint.ReadHistory(context.Background(), st)
	if err != nil {
		t.Fatal(err)
	}
	reached := map[string]bool{}
	for _, m := range h.Published() {
		m.Objects(func(o state.Handle) { reached[o.Object] = true })
	}
	infos, err := st.List(context.Background(), "objects/")
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range infos {
		if !reached[in.Name] {
			t.Errorf("%s is reached by nothing", in.Name)
		}
	}
}

// TestHistoryDoesNotGrow: an attempt that lives for long forgets what it deleted.
func TestHistoryDoesNotGrow(t *testing.T) {
	j := startJob(t, memstore.New(t.Name()))
	for range 200 {
		j.publish()
		if err := j.r.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(j.a.History().Entries); n > 5 {
		t.Errorf("%d entries are kept in memory", n)
	}
	if m := j.a.History().Newest(); m == nil || m.ID.N() != 200 {
		t.Errorf("the newest checkpoint is %v", m)
	}
}

// TestLastSettledCheckpointStays: while nothing that is prepared gets resolved, the newest
// checkpoint that lists nothing of it stays, for a start after all of it is lost outside.
// Once it is resolved, no more are kept than ever.
func TestLastSettledCheckpointStays(t *testing.T) {
	st, ctx := memstore.New(t.Name()), context.Background()
	j, lane := startJob(t, st), stream.TaskID{UID: "out"}
	take := func() {
		t.Helper()
		j.publish()
		if err := j.r.Run(ctx); err != nil {
			t.Fatal(err)
		}
		restorable(t, st)
	}
	for range 5 {
		take()
	}
	settled := stream.NewCheckpointID(j.a.Number(), j.n)
	for range 10 {
		j.open = append(j.open, checkpoint.Committable{Sink: lane.UID, Checkpoint: stream.NewCheckpointID(j.a.Number(), j.n+1), Attempt: j.a.Number()})
		take()
	}
	h, err := checkpoint.ReadHistory(ctx, st)
	if err != nil || h.Find(settled) == nil || len(h.Unresolved(h.Find(settled))) > 0 {
		t.Fatalf("checkpoint %s, the last one that nothing is open of, is not kept (%v)", settled, err)
	}
	if err := j.a.Confirm(ctx, map[stream.TaskID]stream.CheckpointID{lane: stream.NewCheckpointID(j.a.Number(), j.n)}); err != nil {
		t.Fatal(err)
	}
	j.open = nil
	take()
	if n := restorable(t, st); n != 3 {
		t.Errorf("%d checkpoints are left once all is resolved, want 3", n)
	}
	wantNoOrphans(t, st)
}

// TestJournalsOfOldAttemptsGo: a job that starts again and again does not fill
// its storage with journals.
func TestJournalsOfOldAttemptsGo(t *testing.T) {
	st, ctx := memstore.New(t.Name()), context.Background()
	for n := range 60 {
		if err := st.Note(ctx, fmt.Sprintf("%s%06d", checkpoint.HistoryPrefix, n+1), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	var j *job
	for range 61 {
		j = startJob(t, st)
	}
	if err := j.r.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	infos, err := st.List(ctx, checkpoint.HistoryPrefix)
	if err != nil || len(infos) != 50 || infos[0].Name != checkpoint.HistoryPrefix+"000011" {
		t.Errorf("%d journals from %v, %v", len(infos), infos[0], err)
	}
}
