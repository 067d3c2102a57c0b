package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"

	"etl/state"
	"etl/stream"
)

// memBackend keeps state in maps and writes all of it into every checkpoint.
type memBackend struct {
	objects  state.Objects
	max      int
	restored map[stream.UID]map[string][]byte
}

func (b *memBackend) Restore(ctx context.Context, r state.Restored) error {
	b.restored = map[stream.UID]map[string][]byte{}
	for uid, hs := range r.Keyed {
		b.restored[uid] = map[string][]byte{}
		for _, h := range hs {
			rd, err := r.Objects.Read(ctx, h)
			if err != nil {
				return err
			}
			var buf bytes.Buffer
			if _, err := buf.ReadFrom(rd); err != nil {
				return err
			}
			m := map[string][]byte{}
			if err := json.Unmarshal(buf.Bytes(), &m); err != nil {
				return err
			}
			maps.Copy(b.restored[uid], m)
		}
	}
	return nil
}

func (b *memBackend) Open(_ context.Context, s state.Spec) (state.Store, error) {
	st := &memState{m: map[string][]byte{}, groups: s.KeyGroups}
	for k, v := range b.restored[s.Task.UID] {
		if s.KeyGroups.Contains(stream.KeyGroupOf(stream.Hash([]byte(k)), b.max)) {
			st.m[k] = v
		}
	}
	return st, nil
}

func (b *memBackend) Completed(stream.CheckpointID) {}
func (b *memBackend) Err() error                    { return nil }
func (b *memBackend) Stats() (s state.BackendStats) { return s }
func (b *memBackend) Close() error                  { return nil }

type memState struct {
	m      map[string][]byte
	keys   []string
	groups stream.KeyGroupRange
}

func (s *memState) Batch(_ context.Context, keys [][]byte, _ []uint64, refs []state.Ref) error {
	s.keys = s.keys[:0]
	for i, k := range keys {
		s.keys = append(s.keys, string(k))
		refs[i] = state.Ref{E: s, At: uint64(i)}
	}
	return nil
}

func (s *memState) Get(at uint64) ([]byte, bool) { v, ok := s.m[s.keys[at]]; return v, ok }

// Mutable never changes a slice in place: snapshots share them.
func (s *memState) Mutable(at uint64, n int) []byte {
	v := make([]byte, n)
	copy(v, s.m[s.keys[at]])
	s.m[s.keys[at]] = v
	return v
}

func (s *memState) Delete(at uint64) { delete(s.m, s.keys[at]) }

func (s *memState) Dirty(int, func([]byte, []byte, bool) bool) (int, bool) { return 0, false }
func (s *memState) Slice() (bool, error)                                   { return false, nil }
func (s *memState) OverBudget() bool                                       { return false }
func (s *memState) Close() error                                           { return nil }

func (s *memState) Snapshot(id stream.CheckpointID) (state.Snapshot, error) {
	return &memSnapshot{id: id, m: maps.Clone(s.m), groups: s.groups}, nil
}

type memSnapshot struct {
	id     stream.CheckpointID
	m      map[string][]byte
	groups stream.KeyGroupRange
}

func (s *memSnapshot) Persist(ctx context.Context, up state.Uploader) ([]state.Handle, error) {
	b, err := json.Marshal(s.m)
	if err != nil {
		return nil, err
	}
	h, err := up.Append(state.Segment, b).Wait(ctx)
	h.To, h.KeyGroups, h.Entries = s.id, s.groups, int64(len(s.m))
	return []state.Handle{h}, err
}

func (s *memSnapshot) Release(bool) {}
