package simtest

import (
	"etl/pipeline"
	"etl/state"
	"etl/state/keyed"
)

// pebbleReady: the state backend on Pebble can be simulated.
const pebbleReady = false

func (b *baseDisk) backend(p *process, e pipeline.BackendEnv) (state.Backend, error) {
	return keyed.NewMemory(keyed.MemoryConfig{Lineage: e.Lineage, MaxParallelism: e.MaxParallelism}), nil
}
