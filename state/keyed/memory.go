package keyed

import (
	"context"
	"sync"
	"sync/atomic"

	"etl/state"
	"etl/stream"
)

// MemoryConfig configures the memory backend.
type MemoryConfig struct {
	Lineage stream.Lineage
	// MaxParallelism is the number of key groups; 0 means the default.
	MaxParallelism int
	Policy         Policy
}

// Memory is the backend that keeps all keyed state in memory: the cache with
// nothing below it. A chain of segments that has grown long is replaced by a
// full one. Its memory is bounded by the state only.
type Memory struct {
	cfg    MemoryConfig
	budget *Budget
	names  Names

	mu       sync.Mutex
	restored state.Restored
	stores   []*Store
	stats    restoreStats
}

// restoreStats count what restores replayed.
type restoreStats struct{ segments, entries atomic.Int64 }

// NewMemory returns a memory backend.
func NewMemory(cfg MemoryConfig) *Memory {
	return &Memory{cfg: cfg, budget: NewBudget(0)}
}

// Restore implements state.Backend: V7. The reading is done by Open.
func (m *Memory) Restore(_ context.Context, r state.Restored) error {
	m.restored = r
	for uid, hs := range r.Keyed {
		chains, err := Chains(uid, r.ID, hs)
		if err != nil {
			return err
		}
		for _, c := range chains {
			if len(c.Base) > 0 {
				return stream.Errorf(stream.RestoreRefused, "state.other_backend", "restore keyed state", string(uid),
					"the checkpoint has a base of the pebble backend").WithFix("set the state backend to pebble")
			}
		}
	}
	return nil
}

// Open implements state.Backend.
func (m *Memory) Open(ctx context.Context, spec state.Spec) (state.Store, error) {
	if spec.MaxParallelism == 0 {
		spec.MaxParallelism = m.cfg.MaxParallelism
	}
	chains, err := Chains(spec.Task.UID, m.restored.ID, m.restored.Keyed[spec.Task.UID])
	if err != nil {
		return nil, err
	}
	part := Overlapping(chains, spec.KeyGroups)
	s, err := NewStore(Options{
		Spec: spec, Lineage: m.cfg.Lineage, Budget: m.budget, Names: &m.names, Policy: m.cfg.Policy, Chain: Same(part, spec.KeyGroups),
	})
	if err != nil {
		return nil, err
	}
	for _, c := range part {
		n, err := s.Replay(ctx, m.restored.Objects, c.Segments, nil)
		if err != nil {
			_ = s.Close()
			return nil, err
		}
		m.stats.segments.Add(int64(len(c.Segments)))
		m.stats.entries.Add(n)
	}
	s.Begin(m.restored.ID)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stores = append(m.stores, s)
	return s, nil
}

// Completed implements state.Backend.
func (m *Memory) Completed(stream.CheckpointID) {}

// Err implements state.Backend.
func (m *Memory) Err() error { return nil }

// Stats implements state.Backend.
func (m *Memory) Stats() state.BackendStats {
	return state.BackendStats{
		SegmentsReplayed: m.stats.segments.Load(), EntriesReplayed: m.stats.entries.Load(), CacheBytes: m.budget.Used(),
	}
}

// Close implements state.Backend.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.stores {
		_ = s.Close()
	}
	m.stores = nil
	return nil
}
