package pipeline

import (
	"errors"
	"fmt"

	"etl/sink"
	"etl/source"
	"etl/stream"
	"etl/transform"
)

// Builder puts a graph together in Go. Methods return streams to go on from;
// what is wrong is told by Graph, all at once.
type Builder struct {
	g    Graph
	errs []error
}

// New returns a builder for the job with the name.
func New(name string) *Builder { return &Builder{g: Graph{Name: name}} }

// Parallelism sets the number of subtasks of components that do not say
// otherwise; default 1.
func (b *Builder) Parallelism(n int) *Builder {
	b.g.Parallelism = n
	return b
}

// MaxParallelism sets the number of key groups; default 128.
func (b *Builder) MaxParallelism(n int) *Builder {
	b.g.MaxParallelism = n
	return b
}

// Stream is the output of a component, or several of them, on its way to the
// next one.
type Stream struct {
	b      *Builder
	inputs []Input
	schema *stream.Schema
	last   *Node
}

// Source adds a source. schema describes its records; nil: raw bytes.
func (b *Builder) Source(uid stream.UID, c source.Connector, schema *stream.Schema) *Stream {
	if schema == nil {
		schema = &stream.Schema{Format: stream.Raw}
	}
	n := &Node{UID: uid, Kind: SourceKind, Type: "go", Out: schema,
		Source: &Source{NewEnumerator: c.NewEnumerator, NewReader: c.NewReader, Bounded: c.Bounded()}}
	return b.add(n)
}

// add takes a component and returns the stream of its output.
func (b *Builder) add(n *Node) *Stream {
	b.g.Nodes = append(b.g.Nodes, n)
	return &Stream{b: b, inputs: []Input{{From: n.UID}}, schema: n.Out, last: n}
}

// Apply adds an operator behind the stream. An operator with keyed state needs
// a KeyBy before it.
func (s *Stream) Apply(uid stream.UID, d transform.Description) *Stream {
	out, err := d.OutputSchema(s.schema)
	if err != nil {
		s.b.errs = append(s.b.errs, fmt.Errorf("%s: %w", uid, err))
		out = s.schema
	}
	op := &Operator{New: d.New}
	if k, ok := d.(transform.Stateful); ok {
		op.Keyed = k.Descriptors()
	}
	return s.b.add(&Node{UID: uid, Kind: OperatorKind, Type: fmt.Sprintf("%T", d), Inputs: s.inputs, Out: out, Operator: op})
}

// KeyBy distributes the records that go on by key. text names the key in plans.
func (s *Stream) KeyBy(text string, newKeyer func() Keyer) *Stream {
	k := *s
	k.inputs = nil
	for _, in := range s.inputs {
		in.Key = &Key{Text: text, New: newKeyer}
		k.inputs = append(k.inputs, in)
	}
	return &k
}

// Union takes the records of several streams together; they must have one schema.
func (s *Stream) Union(others ...*Stream) *Stream {
	u := *s
	for _, o := range others {
		u.inputs = append(append([]Input(nil), u.inputs...), o.inputs...)
		if o.schema != s.schema && o.schema.Format != s.schema.Format {
			s.b.errs = append(s.b.errs, fmt.Errorf("union of %s and %s: one is %s, the other %s", s.last.UID, o.last.UID, s.schema.Format, o.schema.Format))
		}
	}
	return &u
}

// Side returns the records that the component emitted under a tag.
func (s *Stream) Side(tag stream.Tag) *Stream {
	return &Stream{b: s.b, inputs: []Input{{From: s.last.UID, Tag: tag}}, schema: s.last.schema(tag), last: s.last}
}

// DeadLetters has that component make dead letters of the records it cannot process,
// and returns them: the records as they were read, with headers that say why
// ([stream.Letter]). [transform.Letters] makes objects of fields of them. Letters of
// several components go to one sink by Union.
func (s *Stream) DeadLetters() *Stream { return s.OnError(DeadLetter).Side(DeadLetterTag) }

// Sink adds a sink.
func (s *Stream) Sink(uid stream.UID, c sink.Connector) *Stream {
	n := &Node{UID: uid, Kind: SinkKind, Type: "go", Inputs: s.inputs, Sink: &Sink{NewWriter: c.NewWriter, NewCommitter: c.NewCommitter, Features: c.Features()}}
	return s.b.add(n)
}

// Parallelism sets the number of subtasks of the component that made the stream.
func (s *Stream) Parallelism(n int) *Stream {
	s.last.Parallelism = n
	return s
}

// OnError sets what becomes of records that component could not process.
func (s *Stream) OnError(p OnError) *Stream {
	s.last.OnError = p
	return s
}

// Graph returns the graph, or everything that is wrong with it, joined.
func (b *Builder) Graph() (*Graph, error) {
	if errs := append(b.errs, b.g.Validate()...); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return &b.g, nil
}
