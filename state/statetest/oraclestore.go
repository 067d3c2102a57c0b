package statetest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"sync"

	"etl/state"
	"etl/stream"
)

// oracleStore is the store of an oracle. A nil value in a map of changes is a
// deletion.
type oracleStore struct {
	o      *Oracle
	spec   state.Spec
	keys   [][]byte // of the running batch
	live   map[string][]byte
	dirty  map[string]bool
	walk   []string
	sealed *oracleSnapshot

	mu    sync.Mutex
	carry map[string][]byte // changes of snapshots that came to nothing
	chain []state.Handle
}

// oracleSnapshot is a sealed epoch. all is the state at the barrier, for the base.
type oracleSnapshot struct {
	s    *oracleStore
	id   stream.CheckpointID
	want []string // keys to copy out
	out  map[string][]byte
	all  map[string][]byte
	h    state.Handle
	done chan struct{}
}

func (s *oracleStore) owns(key string) bool {
	return s.spec.KeyGroups.Contains(stream.KeyGroupOf(stream.Hash([]byte(key)), s.spec.MaxParallelism))
}

func (s *oracleStore) add(m map[string][]byte) {
	for k, v := range m {
		if s.owns(k) {
			s.live[k] = bytes.Clone(v)
		}
	}
}

// change is an entry of an oracle's segment.
type change struct{ K, V []byte }

func (s *oracleStore) replay(ctx context.Context, h state.Handle) error {
	r, err := s.o.restored.Objects.Read(ctx, h)
	if err != nil {
		return err
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	var changes []change
	if err := json.Unmarshal(b, &changes); err != nil {
		return err
	}
	for _, c := range changes {
		if s.owns(string(c.K)) && c.V != nil {
			s.live[string(c.K)] = c.V
		} else {
			delete(s.live, string(c.K))
		}
	}
	return nil
}

// Batch implements state.Keyed.
func (s *oracleStore) Batch(_ context.Context, keys [][]byte, _ []uint64, refs []state.Ref) error {
	s.keys = keys
	for i := range keys {
		refs[i] = state.Ref{E: s, At: uint64(i)}
	}
	return nil
}

// Get implements state.Entry.
func (s *oracleStore) Get(at uint64) ([]byte, bool) {
	v, ok := s.live[string(s.keys[at])]
	return v, ok
}

// Mutable implements state.Entry.
func (s *oracleStore) Mutable(at uint64, n int) []byte {
	k := string(s.keys[at])
	b := make([]byte, n)
	copy(b, s.live[k])
	s.live[k], s.dirty[k] = b, true
	return b
}

// Delete implements state.Entry.
func (s *oracleStore) Delete(at uint64) {
	k := string(s.keys[at])
	if _, ok := s.live[k]; ok {
		s.dirty[k] = true
		delete(s.live, k)
	}
}

// Dirty implements state.Keyed.
func (s *oracleStore) Dirty(pos int, f func(key, value []byte, ok bool) bool) (int, bool) {
	if pos == 0 {
		s.walk = slices.Sorted(maps.Keys(s.dirty))
	}
	for pos < len(s.walk) {
		v, ok := s.live[s.walk[pos]]
		pos++
		if !f([]byte(s.walk[pos-1]), v, ok) {
			return pos, true
		}
	}
	return pos, false
}

// Snapshot implements state.Store.
func (s *oracleStore) Snapshot(id stream.CheckpointID) (state.Snapshot, error) {
	for s.sealed != nil {
		if _, err := s.Slice(); err != nil {
			return nil, err
		}
	}
	p := &oracleSnapshot{s: s, id: id, want: slices.Sorted(maps.Keys(s.dirty)), out: map[string][]byte{}, all: map[string][]byte{}, done: make(chan struct{})}
	for k, v := range s.live {
		p.all[k] = bytes.Clone(v)
	}
	if s.o.fault != PreImageSkipped {
		p.copyOut(p.want)
		p.want = nil
	}
	s.dirty = map[string]bool{}
	s.sealed = p
	return p, nil
}

func (p *oracleSnapshot) copyOut(keys []string) {
	for _, k := range keys {
		if v, ok := p.s.live[k]; ok {
			p.out[k] = append([]byte{}, v...)
		} else if p.s.o.fault != DeleteForgotten {
			p.out[k] = nil
		}
	}
}

// Slice implements state.Store.
func (s *oracleStore) Slice() (bool, error) {
	p := s.sealed
	if p == nil {
		return false, nil
	}
	n := min(3, len(p.want))
	p.copyOut(p.want[:n])
	if p.want = p.want[n:]; len(p.want) > 0 {
		return true, nil
	}
	if s.o.fault == LeakAfterBarrier {
		p.copyOut(slices.Sorted(maps.Keys(s.dirty)))
	}
	s.sealed = nil
	close(p.done)
	return false, nil
}

// OverBudget implements state.Store.
func (s *oracleStore) OverBudget() bool { return false }

// Close implements state.Store.
func (s *oracleStore) Close() error { return nil }

// Persist implements state.Snapshot.
func (p *oracleSnapshot) Persist(ctx context.Context, up state.Uploader) ([]state.Handle, error) {
	select {
	case <-p.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	all := maps.Clone(s.carry)
	maps.Copy(all, p.out)
	changes := []change{}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		changes = append(changes, change{[]byte(k), all[k]})
	}
	b, err := json.Marshal(changes)
	if err != nil {
		return nil, err
	}
	h, err := up.Append(state.Segment, b).Wait(ctx)
	if err != nil {
		return nil, err
	}
	if l := len(s.chain); l > 0 {
		h.From = s.chain[l-1].To
	}
	h.To, h.KeyGroups, h.Entries = p.id, s.spec.KeyGroups, int64(len(changes))
	p.h = h
	return append(slices.Clone(s.chain), h), nil
}

// Release implements state.Snapshot.
func (p *oracleSnapshot) Release(persisted bool) {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case persisted:
		s.chain = append(slices.Clone(s.chain), p.h)
		clear(s.carry)
		s.o.persisted(p)
	case s.o.fault == GapInChain && len(s.chain) > 0:
		last := s.chain[len(s.chain)-1]
		last.To = p.id // as if nothing had changed since
		s.chain = append(slices.Clone(s.chain[:len(s.chain)-1]), last)
	case s.o.fault == AbortedDeltaDropped:
	default:
		maps.Copy(s.carry, p.out)
	}
}
