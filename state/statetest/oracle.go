package statetest

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	"etl/state"
	"etl/stream"
)

// Fault is a rule that an oracle breaks.
type Fault string

// The faults that the suite must catch.
const (
	None                Fault = ""
	LeakAfterBarrier    Fault = "a write after the barrier gets into the snapshot"
	PreImageSkipped     Fault = "an entry is copied out as it became after the barrier"
	DeleteForgotten     Fault = "a delete does not reach the segment"
	AbortedDeltaDropped Fault = "the changes of an aborted snapshot are forgotten"
	GapInChain          Fault = "a segment of an aborted checkpoint is not listed"
	ForeignBaseReused   Fault = "a local base is used whatever its mark says"
	AppliedTooEarly     Fault = "the base gets epochs of checkpoints that are not complete"
)

// Faults lists all of them.
var Faults = []Fault{LeakAfterBarrier, PreImageSkipped, DeleteForgotten, AbortedDeltaDropped, GapInChain, ForeignBaseReused, AppliedTooEarly}

// Oracle is the simplest backend there is, over plain maps: what the suite
// measures others by and, with a rule broken, what it must catch. Its chains
// never begin anew, and its base is a map for each range of key groups.
type Oracle struct {
	fault    Fault
	disk     *oracleDisk
	restored state.Restored

	mu   sync.Mutex
	done []*oracleSnapshot // persisted, not in the base
}

type oracleDisk struct {
	parts map[stream.KeyGroupRange]oracleBase
}

// oracleBase is a base with its mark.
type oracleBase struct {
	content map[string][]byte
	id      stream.CheckpointID
	object  string
	offset  int64
}

// OracleFeatures describe an oracle with a fault to the suite.
func OracleFeatures(fault Fault) Features {
	return Features{
		Name: "oracle: " + string(fault), Unchecked: true,
		New: func(_ testing.TB, w *World) state.Backend {
			return &Oracle{fault: fault, disk: w.Disk.(*oracleDisk)}
		},
		NewDisk: func(testing.TB) any { return &oracleDisk{map[stream.KeyGroupRange]oracleBase{}} },
		Crash: func(_ testing.TB, disk any) any {
			return &oracleDisk{maps.Clone(disk.(*oracleDisk).parts)}
		},
	}
}

// Restore implements state.Backend.
func (o *Oracle) Restore(_ context.Context, r state.Restored) error {
	o.restored = r
	return nil
}

// Open implements state.Backend.
func (o *Oracle) Open(ctx context.Context, spec state.Spec) (state.Store, error) {
	s := &oracleStore{o: o, spec: spec, live: map[string][]byte{}, dirty: map[string]bool{}, carry: map[string][]byte{}}
	by := map[stream.KeyGroupRange][]state.Handle{}
	for _, h := range o.restored.Keyed[spec.Task.UID] {
		by[h.KeyGroups] = append(by[h.KeyGroups], h)
	}
	for groups, hs := range by {
		base, after := o.disk.parts[groups], hs
		if i := base.at(hs); i > 0 || o.fault == ForeignBaseReused && base.content != nil {
			s.add(base.content)
			after = hs[i:]
		}
		for _, h := range after {
			if err := s.replay(ctx, h); err != nil {
				return nil, err
			}
		}
		if groups == spec.KeyGroups {
			s.chain = hs
		}
	}
	if s.chain == nil { // rescaled, or new: everything is a change
		maps.Copy(s.carry, s.live)
	}
	return s, nil
}

// at returns how many segments of a chain the base has: 0 unless its mark is the
// end of one (I19).
func (b oracleBase) at(hs []state.Handle) int {
	return 1 + slices.IndexFunc(hs, func(h state.Handle) bool {
		return h.To == b.id && h.Object == b.object && h.Offset == b.offset
	})
}

// persisted is told of a snapshot that counts.
func (o *Oracle) persisted(p *oracleSnapshot) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.done = append(o.done, p)
	if o.fault == AppliedTooEarly {
		groups := p.s.spec.KeyGroups
		if b, ok := o.disk.parts[groups]; ok {
			b.content = p.all // under the mark of an earlier one
			o.disk.parts[groups] = b
		}
	}
}

// Completed implements state.Backend.
func (o *Oracle) Completed(id stream.CheckpointID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.done {
		if p.id <= id {
			o.disk.parts[p.s.spec.KeyGroups] = oracleBase{content: p.all, id: p.id, object: p.h.Object, offset: p.h.Offset}
		}
	}
}

// Err implements state.Backend.
func (o *Oracle) Err() error { return nil }

// Stats implements state.Backend.
func (o *Oracle) Stats() state.BackendStats { return state.BackendStats{} }

// Close implements state.Backend.
func (o *Oracle) Close() error { return nil }
