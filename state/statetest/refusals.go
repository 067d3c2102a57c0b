package statetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"etl/state"
	"etl/stream"
)

// runRefusals restores what must not be restored. Every refusal is of class
// RestoreRefused and changes nothing: afterwards the very same disk and storage
// give the checkpoint back.
func runRefusals(t *testing.T, f Features) {
	w := World{Lineage: stream.Lineage{1, 2, 3}, Storage: NewStorage(), MaxParallelism: keyGroups, Budget: 64 << 20}
	if f.NewDisk != nil {
		w.Disk = f.NewDisk(t)
	}
	good := someCheckpoint(t, f, &w)
	cases := []struct {
		name   string
		change func(w *World, p *published, d *state.Descriptor)
	}{
		{"a gap in the chain", func(_ *World, p *published, _ *state.Descriptor) { p.handles = slices.Delete(p.handles, 1, 2) }},
		{"the end of the chain is missing", func(_ *World, p *published, _ *state.Descriptor) { p.handles = p.handles[:len(p.handles)-1] }},
		{"an object is missing", func(w *World, p *published, _ *state.Descriptor) {
			w.Storage.Damage(p.handles[0].Object, func([]byte) []byte { return nil })
		}},
		{"an object was altered", func(w *World, p *published, _ *state.Descriptor) {
			w.Storage.Damage(p.handles[0].Object, func(b []byte) []byte {
				b[p.handles[0].Offset+p.handles[0].Size/2] ^= 1
				return b
			})
		}},
		{"another lineage", func(w *World, _ *published, _ *state.Descriptor) { w.Lineage = stream.Lineage{7} }},
		{"another maximum parallelism", func(w *World, _ *published, _ *state.Descriptor) { w.MaxParallelism = 2 * keyGroups }},
		{"another serializer", func(_ *World, _ *published, d *state.Descriptor) { d.Serializer = "bytes/2" }},
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			bad, p, d := w, *good, Descriptor
			bad.Attempt, bad.Storage, p.handles = stream.Attempt(i+2), w.Storage.Clone(), slices.Clone(good.handles)
			c.change(&bad, &p, &d)
			err := tryRestore(t, f, &bad, &p, d)
			if stream.ClassOf(err) != stream.RestoreRefused {
				t.Errorf("class %s instead of restore_refused: %v", stream.ClassOf(err), err)
			}
			same := w
			same.Attempt = bad.Attempt
			if err := tryRestore(t, f, &same, good, Descriptor); err != nil {
				t.Errorf("after the refusal: %v", err)
			}
		})
	}
}

// someCheckpoint works for three checkpoints and returns the last.
func someCheckpoint(t *testing.T, f Features, w *World) *published {
	t.Helper()
	w.Attempt = 1
	choice := 0
	m := &model{t: t, f: f, w: *w, pick: func(_ string, n int) int { choice++; return choice % n }}
	if err := m.start(nil, 1); err != nil {
		t.Fatal(err)
	}
	m.pick = func(_ string, n int) int { choice++; return 5 * choice % n }
	last := &published{}
	for range 3 {
		tk := m.tasks[0]
		err := m.batch(tk)
		m.number++
		id := stream.NewCheckpointID(m.w.Attempt, m.number)
		snap, err2 := tk.store.Snapshot(id)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		for more := true; more; {
			if more, err = tk.store.Slice(); err != nil {
				t.Fatal(err)
			}
		}
		hs, err := snap.Persist(m.ctx, m.uploader)
		if err != nil {
			t.Fatal(err)
		}
		snap.Release(true)
		last = &published{id: id, handles: hs, want: maps.Clone(tk.live)}
	}
	if err := m.stop(); err != nil {
		t.Fatal(err)
	}
	return last
}

// tryRestore restores and compares a checkpoint in an attempt of its own.
func tryRestore(t *testing.T, f Features, w *World, p *published, d state.Descriptor) error {
	t.Helper()
	b := f.New(t, w)
	tasks, err := restore(context.Background(), b, w, p, 1, d)
	if cerr := closeAll(tasks, b); cerr != nil {
		t.Error(cerr)
	}
	return err
}
