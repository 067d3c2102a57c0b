package keyed

import (
	"sync"

	"etl/state"
	"etl/stream"
)

// Name is a keyed state with the number that stands for it in keys.
type Name struct {
	ID         uint16     `json:"id"`
	UID        stream.UID `json:"uid"`
	State      string     `json:"state"`
	Kind       string     `json:"kind"`
	Serializer string     `json:"serializer"`
}

// Names numbers the keyed states of a process, so that a key carries two bytes
// instead of names. Numbers mean nothing outside the process, its base and its
// segments, all of which carry the table. Safe for concurrent use.
type Names struct {
	mu   sync.Mutex
	list []Name
}

// Load takes over the numbers of a base.
func (n *Names) Load(list []Name) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append([]Name(nil), list...)
}

// All returns the table.
func (n *Names) All() []Name {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]Name(nil), n.list...)
}

// Intern returns the number of a state and refuses one that is stored with
// another serializer.
func (n *Names) Intern(uid stream.UID, d state.Descriptor) (uint16, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, have := range n.list {
		if have.UID == uid && have.State == d.Name {
			return have.ID, have.accepts(d)
		}
	}
	if len(n.list) >= 1<<16-1 {
		return 0, stream.Errorf(stream.BadConfig, "state.too_many_states", "open keyed state", string(uid), "more than 65535 keyed states in one process")
	}
	id := uint16(len(n.list) + 1)
	n.list = append(n.list, Name{ID: id, UID: uid, State: d.Name, Kind: d.Kind, Serializer: d.Serializer})
	return id, nil
}

// accepts reports whether stored values can be read as d says.
func (n Name) accepts(d state.Descriptor) error {
	if n.Serializer == d.Serializer && n.Kind == d.Kind {
		return nil
	}
	return stream.Errorf(stream.RestoreRefused, "state.serializer_changed", "restore keyed state", string(n.UID)+" "+n.State,
		"stored as %s by %s, the job declares %s by %s", n.Kind, n.Serializer, d.Kind, d.Serializer).
		WithFix("give the operator a new uid, or start from a checkpoint that was written with the same serializer")
}
