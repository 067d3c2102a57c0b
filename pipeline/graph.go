package pipeline

import (
	"etl/sink"
	"etl/source"
	"etl/state"
	"etl/stream"
	"etl/transform"
)

// Kind is what a component does.
type Kind string

// The kinds of components.
const (
	SourceKind   Kind = "source"
	OperatorKind Kind = "operator"
	SinkKind     Kind = "sink"
)

// OnError says what becomes of a record a component could not process.
type OnError string

// The policies.
const (
	// Fail ends the job: the default, because nothing may be lost silently.
	Fail OnError = "fail"
	// Skip counts the record and goes on.
	Skip OnError = "skip"
	// DeadLetter makes a dead letter of it ([stream.Letter]), which goes to the side
	// output tagged DeadLetterTag in the same epoch. Somebody must take them.
	DeadLetter OnError = "dead_letter"
)

// DeadLetterTag is the side output of dead letters. Its schema is
// stream.LetterSchema.
const DeadLetterTag stream.Tag = "dead_letter"

// Graph is a job as a set of connected components.
type Graph struct {
	// Name is the job's identity in storage and in every outside name.
	Name string
	// Parallelism is the number of subtasks of a component that does not say
	// otherwise; default 1.
	Parallelism int
	// MaxParallelism is the number of key groups; default 128. It is fixed by the
	// first checkpoint.
	MaxParallelism int
	// Nodes are the components; inputs name earlier or later ones, without cycles.
	Nodes []*Node
}

// Node is one component.
type Node struct {
	UID  stream.UID
	Kind Kind
	// Type is the component's word in the pipeline file: kafka, filter, aggregate.
	Type string
	// Parallelism overrides the graph's; 0 for none.
	Parallelism int
	Inputs      []Input
	OnError     OnError // default Fail
	// Of is the component that the node is part of, for dead letters, when that has
	// another UID: a source, of the node that decodes behind it.
	Of stream.UID
	// Out is the schema of the records the component emits; nil for sinks.
	Out *stream.Schema
	// Detail is one line for plans: topics, expression, table.
	Detail string

	// Exactly one of these is set, according to Kind.
	Source   *Source
	Operator *Operator
	Sink     *Sink
}

// Input connects a component to the output of another one. The order of inputs
// gives the ports of an operator.
type Input struct {
	From stream.UID
	// Tag takes a side output instead of the main one.
	Tag stream.Tag
	// Key distributes records by key; nil keeps them where they are.
	Key *Key
}

// Key says how records are distributed over the subtasks of a component.
type Key struct {
	// Text is the key as written, for plans and messages.
	Text string
	// New returns a Keyer for one task.
	New func() Keyer
}

// Keyer computes keys. It is used by one task goroutine.
type Keyer interface {
	// Key sets Group and Hash of every record of b, with memory of b. A record
	// without a key is passed to reject by its index; its Group stays nil.
	Key(b *stream.Batch, reject func(i int, err error)) error
}

// Source is what a source component is made of.
type Source struct {
	NewEnumerator func() source.Enumerator
	NewReader     func() source.Reader
	// Bounded says that the source ends.
	Bounded bool
}

// Operator is what an operator component is made of.
type Operator struct {
	New func() transform.Operator
	// Keyed declares its keyed state; such an operator needs a Key on every input.
	Keyed []state.Descriptor
	// NonDeterministic says why a replay may give other output; empty when it
	// cannot.
	NonDeterministic string
}

// Sink is what a sink component is made of.
type Sink struct {
	NewWriter func() sink.Writer
	// NewCommitter is nil for sinks that commit nothing (at-least-once).
	NewCommitter func() sink.Committer
	Features     sink.Features
	// Delivery is the guarantee as the pipeline file words it.
	Delivery string
}

// schema returns that of an output of n.
func (n *Node) schema(tag stream.Tag) *stream.Schema {
	if tag == DeadLetterTag {
		return stream.LetterSchema
	}
	return n.Out
}

// component returns who a dead letter of n names.
func (n *Node) component() stream.UID {
	if n.Of != "" {
		return n.Of
	}
	return n.UID
}

// parallelism returns the number of subtasks of n.
func (g *Graph) parallelism(n *Node) int {
	if n.Parallelism > 0 {
		return n.Parallelism
	}
	return max(g.Parallelism, 1)
}

// maxParallelism returns the number of key groups of the job.
func (g *Graph) maxParallelism() int {
	if g.MaxParallelism > 0 {
		return g.MaxParallelism
	}
	return stream.DefaultMaxParallelism
}

// Node returns the component with the UID, nil when there is none.
func (g *Graph) Node(uid stream.UID) *Node {
	for _, n := range g.Nodes {
		if n.UID == uid {
			return n
		}
	}
	return nil
}
