package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"etl/checkpoint"
	"etl/state"
	"etl/stream"
)

// operators describes the graph for metadata.
func (g *Graph) operators() []checkpoint.OperatorMeta {
	out := make([]checkpoint.OperatorMeta, 0, len(g.Nodes))
	for _, n := range g.Nodes {
		m := checkpoint.OperatorMeta{UID: n.UID, Kind: string(n.Kind), Type: n.Type, Parallelism: g.parallelism(n)}
		if n.Operator != nil {
			m.Keyed = n.Operator.Keyed
		}
		out = append(out, m)
	}
	return out
}

// Change is what a start would do to the stored state of one component.
type Change struct {
	UID stream.UID `json:"uid"`
	// Fate is kept, new, dropped or refused.
	Fate string `json:"fate"`
	Why  string `json:"why,omitempty"`
}

// Compare says what restoring m into the graph would do, component by component
// (V1). It changes nothing.
func (g *Graph) Compare(m *checkpoint.Metadata, allowDropped []stream.UID) []Change {
	var out []Change
	for _, n := range g.Nodes {
		c := Change{UID: n.UID, Fate: "new"}
		if old := stored(m, n.UID); old != nil {
			c = g.compareNode(n, old)
		}
		out = append(out, c)
	}
	for i := range m.Operators {
		old := &m.Operators[i]
		if g.Node(old.UID) != nil {
			continue
		}
		out = append(out, dropped(m, old, slices.Contains(allowDropped, old.UID)))
	}
	return out
}

func stored(m *checkpoint.Metadata, uid stream.UID) *checkpoint.OperatorMeta {
	for i := range m.Operators {
		if m.Operators[i].UID == uid {
			return &m.Operators[i]
		}
	}
	return nil
}

func (g *Graph) compareNode(n *Node, old *checkpoint.OperatorMeta) Change {
	c := Change{UID: n.UID, Fate: "kept"}
	refuse := func(format string, args ...any) { c.Fate, c.Why = "refused", fmt.Sprintf(format, args...) }
	if old.Kind != string(n.Kind) {
		refuse("stored as a %s, now a %s", old.Kind, n.Kind)
		return c
	}
	if n.Operator == nil {
		return c
	}
	for _, d := range old.Keyed {
		i := slices.IndexFunc(n.Operator.Keyed, func(x state.Descriptor) bool { return x.Name == d.Name })
		switch {
		case i < 0:
			refuse("stored state %q is not declared any more", d.Name)
		case n.Operator.Keyed[i].Kind != d.Kind:
			refuse("state %q is stored as %s, now %s", d.Name, d.Kind, n.Operator.Keyed[i].Kind)
		case n.Operator.Keyed[i].Serializer != d.Serializer:
			refuse("state %q is stored as %s, now %s", d.Name, d.Serializer, n.Operator.Keyed[i].Serializer)
		}
	}
	return c
}

// dropped judges a stored component that the graph no longer has. Sinks leave
// nothing behind once their committables are resolved.
func dropped(m *checkpoint.Metadata, old *checkpoint.OperatorMeta, allowed bool) Change {
	c := Change{UID: old.UID, Fate: "dropped"}
	switch {
	case old.Kind == string(SinkKind):
		for i := range m.Committables {
			if m.Committables[i].Sink == old.UID {
				c.Fate, c.Why = "refused", "the sink has prepared transactions that must be resolved first"
			}
		}
	case allowed || old.Kind == string(OperatorKind) && len(old.Keyed) == 0:
	default:
		c.Fate, c.Why = "refused", "stored state has no component in the pipeline"
	}
	return c
}

// compatible is step V1: an error of class RestoreRefused when m cannot be
// restored into the graph.
func (g *Graph) compatible(m *checkpoint.Metadata, allowDropped []stream.UID) error {
	if m.MaxParallelism != g.maxParallelism() {
		return stream.Errorf(stream.RestoreRefused, "restore.max_parallelism", "restore", m.ID.String(),
			"the job was begun with max_parallelism %d and now says %d: keys would belong to other key groups", m.MaxParallelism, g.maxParallelism()).
			WithFix("set max_parallelism: %d", m.MaxParallelism)
	}
	var refused []string
	for _, c := range g.Compare(m, allowDropped) {
		if c.Fate == "refused" {
			refused = append(refused, fmt.Sprintf("%s: %s", c.UID, c.Why))
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return stream.Errorf(stream.RestoreRefused, "restore.incompatible", "restore", m.ID.String(), "%s", strings.Join(refused, "; ")).
		WithFix("give the component its old name or uid, or allow its state to be dropped with --allow-dropped-state UID")
}
