package keyed_test

import (
	"testing"

	"etl/state"
	"etl/state/keyed"
	"etl/state/statetest"
)

func TestMemory(t *testing.T) { statetest.Run(t, features()) }

// TestMemoryLarge has values that have mappings of their own.
func TestMemoryLarge(t *testing.T) {
	f := features()
	f.Lengths, f.Steps = []int{8, 8, 8, 64, 300, 5000, 5000, 100_000, 1_500_000}, 20
	statetest.Run(t, f)
}

func features() statetest.Features {
	return statetest.Features{
		Name: "memory",
		New: func(_ testing.TB, w *statetest.World) state.Backend {
			p := keyed.Policy{Full: w.Full}
			if w.Compact {
				p.SegmentBytes, p.SegmentCount = 1<<10, 4
			}
			return keyed.NewMemory(keyed.MemoryConfig{Lineage: w.Lineage, MaxParallelism: w.MaxParallelism, Policy: p})
		},
	}
}
