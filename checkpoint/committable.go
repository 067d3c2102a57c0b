package checkpoint

import (
	"cmp"
	"time"

	"etl/state"
	"etl/stream"
)

// Committable is plain data with which any process can finish one prepared
// transaction of a sink. It is declared here because metadata holds it.
type Committable struct {
	Sink       stream.UID          `json:"sink"`
	Subtask    int                 `json:"subtask"`
	Checkpoint stream.CheckpointID `json:"checkpoint"`
	// Seq tells the committables of one checkpoint of one subtask apart.
	Seq int `json:"seq,omitempty"`
	// Attempt is the attempt that prepared it.
	Attempt stream.Attempt `json:"attempt"`
	// Kind and Version say how to read Payload: "kafka-txn" 1, for example.
	Kind    string `json:"kind"`
	Version int    `json:"version"`
	Payload []byte `json:"payload"`
	// Objects are rows that lie in checkpoint storage (write-ahead-log sinks).
	Objects []state.Handle `json:"objects,omitempty"`
	Rows    int64          `json:"rows"`
	// Deadline is when the outside system may give the transaction up; zero for
	// never.
	Deadline time.Time `json:"deadline,omitzero"`
	// Sources are the source offsets its rows come from, for reports of loss. The
	// engine fills them in.
	Sources []stream.Range `json:"sources,omitempty"`
}

// Lane returns the sink subtask in whose lane the committable is committed.
func (c *Committable) Lane() stream.TaskID {
	return stream.TaskID{UID: c.Sink, Subtask: c.Subtask}
}

// Logged returns the size of the rows that lie in checkpoint storage.
func (c *Committable) Logged() (n int64) {
	for i := range c.Objects {
		n += c.Objects[i].Size
	}
	return n
}

// key identifies a committable within a lineage.
type key struct {
	sink    stream.UID
	subtask int
	id      stream.CheckpointID
	seq     int
}

func (c *Committable) key() key { return key{c.Sink, c.Subtask, c.Checkpoint, c.Seq} }

// CompareCommittables orders by lane, then by checkpoint id, then by Seq: the
// order of commits within a lane (I5).
func CompareCommittables(a, b Committable) int {
	return cmp.Or(cmp.Compare(a.Sink, b.Sink), cmp.Compare(a.Subtask, b.Subtask),
		cmp.Compare(a.Checkpoint, b.Checkpoint), cmp.Compare(a.Seq, b.Seq))
}

// Permit allows the commit of exactly the committables that one published
// checkpoint lists. Only an open [Attempt] mints one: after its append of the
// checkpoint returned, or for the checkpoint it restored (I5). The zero Permit
// covers nothing.
type Permit struct {
	id      stream.CheckpointID
	attempt stream.Attempt
	covered map[key][]stream.Range
}

// ID returns the checkpoint the permit was minted for.
func (p Permit) ID() stream.CheckpointID { return p.id }

// Attempt returns the attempt that minted the permit.
func (p Permit) Attempt() stream.Attempt { return p.attempt }

// Covers reports whether c may be committed under the permit.
func (p Permit) Covers(c *Committable) bool {
	_, ok := p.covered[c.key()]
	return ok
}

// Sources returns what the published checkpoint says about where c's rows come from.
func (p Permit) Sources(c *Committable) []stream.Range { return p.covered[c.key()] }

// mint is called by Attempt only.
func mint(m *Metadata, a stream.Attempt) Permit {
	p := Permit{id: m.ID, attempt: a, covered: make(map[key][]stream.Range, len(m.Committables))}
	for i := range m.Committables {
		p.covered[m.Committables[i].key()] = m.Committables[i].Sources
	}
	return p
}
