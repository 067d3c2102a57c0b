package idempotent

import (
	"strconv"

	"etl/internal/broken"
	"etl/stream"
)

// Guard says where versions come from.
type Guard string

// The guards; see the package comment.
const (
	Counter  Guard = "counter"
	Position Guard = "position"
	NoGuard  Guard = "none"
)

// Version orders the values of a key. Of two versions of one scope the one with the
// greater N is newer; versions of different scopes have no order.
type Version struct {
	// Scope is the lineage, in short, and for positions the partition.
	Scope string
	// N is at least 1, and fits in 63 bits.
	N uint64
}

// Versions gives records their versions, for one subtask.
type Versions struct {
	guard Guard
	base  string
	last  Version
	topic string
	part  int32
}

// NewVersions returns the versions of a lineage.
func NewVersions(g Guard, l stream.Lineage) *Versions {
	return &Versions{guard: g, base: l.Short(), part: -1, last: Version{Scope: l.Short()}}
}

// Of returns the version of a record. An error is a fault of the pipeline, not of the
// record: nobody counted its key.
func (v *Versions) Of(r *stream.Record) (Version, error) {
	switch {
	case v.guard == NoGuard:
		return Version{}, nil
	case broken.Is(broken.VersionGuardOmitted):
		return Version{N: 1}, nil
	case v.guard == Position:
		if r.Topic != v.topic || r.Partition != v.part {
			v.topic, v.part = r.Topic, r.Partition
			v.last.Scope = v.base + "/" + r.Topic + "/" + strconv.Itoa(int(r.Partition))
		}
		v.last.N = uint64(r.Offset) + 1
		return v.last, nil
	case r.Version == 0:
		return Version{}, stream.Errorf(stream.Failed, "idempotent.no_version", "write row", "", "a record of %s/%d@%d has no version: nothing before the sink counts the updates of its key",
			r.Topic, r.Partition, r.Offset).WithFix("put transform.Version before the sink, or set Versioned on the aggregate")
	}
	v.last.N = r.Version
	return v.last, nil
}
