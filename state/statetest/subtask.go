package statetest

import (
	"bytes"
	"context"
	"fmt"

	"etl/state"
	"etl/stream"
)

// restore opens a checkpoint and compares everything in it.
func restore(ctx context.Context, b state.Backend, w *World, from *published, parallelism int, d state.Descriptor) ([]*task, error) {
	r := state.Restored{Objects: w.Storage}
	if from != nil {
		r.ID, r.Keyed = from.id, map[stream.UID][]state.Handle{Operator: from.handles}
	}
	if err := b.Restore(ctx, r); err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	var tasks []*task
	for i := range parallelism {
		t := &task{id: stream.TaskID{UID: Operator, Subtask: i}, groups: stream.RangeOf(i, parallelism, w.MaxParallelism)}
		t.live, t.dirty = map[string]string{}, map[string]bool{}
		var err error
		t.store, err = b.Open(ctx, state.Spec{Task: t.id, KeyGroups: t.groups, MaxParallelism: w.MaxParallelism, Descriptors: []state.Descriptor{d}})
		if err != nil {
			return tasks, fmt.Errorf("open %s: %w", t.id, err)
		}
		tasks = append(tasks, t)
		for k := range keySpace {
			key := string(keyAt(k))
			if !t.groups.Contains(stream.KeyGroupOf(stream.Hash([]byte(key)), w.MaxParallelism)) {
				continue
			}
			t.keys = append(t.keys, k)
			if from != nil {
				if v, ok := from.want[key]; ok {
					t.live[key] = v
				}
			}
		}
		if err := t.verify(ctx); err != nil {
			return tasks, fmt.Errorf("checkpoint restored into %d subtasks: %w", parallelism, err)
		}
	}
	return tasks, nil
}

// verify compares all keys of a task with what they must be.
func (t *task) verify(ctx context.Context) error {
	for i := 0; i < len(t.keys); i += 20 {
		keys, hashes, refs := lookups(t.keys[i:min(i+20, len(t.keys))])
		if err := t.store.Batch(ctx, keys, hashes, refs); err != nil {
			return err
		}
		for j, k := range keys {
			if err := t.compare(k, refs[j]); err != nil {
				return err
			}
		}
	}
	return nil
}

func lookups(ids []int) (keys [][]byte, hashes []uint64, refs []state.Ref) {
	for _, i := range ids {
		k := keyAt(i)
		keys, hashes = append(keys, k), append(hashes, stream.Hash(k))
	}
	return keys, hashes, make([]state.Ref, len(ids))
}

func (t *task) compare(key []byte, r state.Ref) error {
	got, ok := r.Get()
	want, exists := t.live[string(key)]
	if ok != exists || string(got) != want {
		return fmt.Errorf("%s: key %.40q is %s, must be %s", t.id, key, show(string(got), ok), show(want, exists))
	}
	return nil
}

func show(v string, ok bool) string {
	if !ok {
		return "absent"
	}
	return fmt.Sprintf("%d bytes %.24q", len(v), v)
}

// batch looks some keys up and changes them.
func (m *model) batch(t *task) error {
	if len(t.keys) == 0 {
		return nil
	}
	ids := make([]int, 1+m.pick("keys", 70))
	for i := range ids {
		ids[i] = t.keys[m.pick("key", len(t.keys))]
	}
	keys, hashes, refs := lookups(ids)
	if err := t.store.Batch(m.ctx, keys, hashes, refs); err != nil {
		return err
	}
	for i, k := range keys {
		if err := t.compare(k, refs[i]); err != nil {
			return err
		}
		m.change(t, string(k), refs[i])
	}
	for i, k := range keys {
		if err := t.compare(k, refs[i]); err != nil {
			return fmt.Errorf("after the batch: %w", err)
		}
	}
	return nil
}

// change does one thing to a key.
func (m *model) change(t *task, key string, r state.Ref) {
	switch m.pick("change", 6) {
	case 0:
		return
	case 1:
		if _, ok := t.live[key]; ok {
			t.dirty[key] = true
		}
		delete(t.live, key)
		r.Delete()
		return
	case 2: // grow or cut, then write the beginning
		n := m.length()
		v := make([]byte, n)
		copy(v, t.live[key])
		p := r.Mutable(n)
		if !bytes.Equal(p, v) {
			m.t.Errorf("Mutable(%d) of key %.20q is %.40q, must be %.40q", n, key, p, v)
		}
		m.value++
		copy(v, fmt.Sprint(m.value))
		copy(p, fmt.Sprint(m.value))
		t.live[key] = string(v)
	default:
		m.value++
		v := bytes.Repeat([]byte{byte(m.value)}, m.length())
		copy(v, fmt.Sprint(m.value))
		r.Set(v)
		t.live[key] = string(v)
	}
	t.dirty[key] = true
}

func (m *model) length() int {
	sizes := append([]int{0, 1, 8, 8, 8, 13, 64, 300, 5000}, m.f.Lengths...)
	return sizes[m.pick("length", len(sizes))]
}

// walkDirty compares the dirty keys, stopping now and then.
func (m *model) walkDirty(t *task) error {
	seen := map[string]bool{}
	var bad error
	for pos, more := 0, true; more; {
		pos, more = t.store.Dirty(pos, func(key, value []byte, ok bool) bool {
			k := string(key)
			want, exists := t.live[k]
			if seen[k] || !t.dirty[k] || ok != exists || string(value) != want {
				bad = fmt.Errorf("%s: the walk over dirty keys gives %.40q as %s; seen %v, dirty %v, must be %s",
					t.id, k, show(string(value), ok), seen[k], t.dirty[k], show(want, exists))
			}
			seen[k] = true
			return m.pick("stop", 4) > 0
		})
	}
	if bad == nil && len(seen) != len(t.dirty) {
		bad = fmt.Errorf("%s: the walk over dirty keys gives %d of %d", t.id, len(seen), len(t.dirty))
	}
	return bad
}
