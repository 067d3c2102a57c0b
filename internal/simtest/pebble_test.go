package simtest

import (
	"etl/pipeline"
	"etl/state"
	"etl/state/keyed"
	"etl/state/pebbledb"
)

// backend opens the state backend on Pebble, with chains that grow long at once, so
// that bases are made, reused and discarded within seconds.
func (b *baseDisk) backend(p *process, e pipeline.BackendEnv) (state.Backend, error) {
	return pebbledb.New(pebbledb.Config{World: e.World, FS: b.fs, Dir: "/state", Lineage: e.Lineage, Attempt: e.Attempt,
		MaxParallelism: e.MaxParallelism, Memory: 8 << 20, Policy: p.s.plan.chains})
}

// shortChains is a policy under which a base is due after a few segments.
func shortChains(count int, full bool) keyed.Policy {
	return keyed.Policy{Base: true, SegmentBytes: 1 << 10, SegmentCount: count, Full: full}
}
