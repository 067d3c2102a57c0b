package config

import (
	"errors"
	"fmt"
	"strings"

	"etl/pipeline"
	"etl/stream"
)

// graph puts the nodes of all components together.
func (b *builder) graph() *pipeline.Graph {
	g := &pipeline.Graph{Name: b.spec.Name, Parallelism: b.spec.Parallelism, MaxParallelism: b.spec.MaxParallelism}
	for _, c := range b.components {
		g.Nodes = append(g.Nodes, c.nodes()...)
	}
	return g
}

// kinds of the nodes of a section.
var kinds = map[Section]pipeline.Kind{Sources: pipeline.SourceKind, Transforms: pipeline.OperatorKind, Sinks: pipeline.SinkKind}

// nodes returns the node of a component, and for a source the one that decodes
// behind it, under the same policy.
func (c *Component) nodes() []*pipeline.Node {
	n := &pipeline.Node{UID: c.UID, Kind: kinds[c.Section], Type: c.Type, Parallelism: c.common.Parallelism, OnError: pipeline.OnError(c.common.OnError),
		Out: c.parts.Out, Detail: c.parts.Detail, Source: c.parts.Source, Operator: c.parts.Operator, Sink: c.parts.Sink}
	for _, in := range c.inputs {
		n.Inputs = append(n.Inputs, pipeline.Input{From: in.from, Tag: in.output, Key: c.parts.Key})
	}
	if c.Section == Sources && n.Out == nil {
		n.Out = rawSchema
	}
	if c.takesLetters() {
		var fields *pipeline.Node
		if n.Inputs, fields = c.letterInputs(); fields != nil {
			return []*pipeline.Node{fields, n}
		}
	}
	if c.counted != nil {
		return []*pipeline.Node{c.counterNode(n), n}
	}
	if !c.decoded() {
		return []*pipeline.Node{n}
	}
	policy := n.OnError
	if policy == pipeline.DeadLetter {
		n.OnError = pipeline.Fail // a reader rejects nothing
	}
	return []*pipeline.Node{n, {UID: c.from, Kind: pipeline.OperatorKind, Type: "decode", Of: c.UID, Parallelism: c.common.Parallelism, OnError: policy,
		Inputs: []pipeline.Input{{From: c.UID}}, Out: c.out, Detail: c.decode.String(), Operator: &pipeline.Operator{New: decodeOperator(c.decode)}}}
}

// byUID returns the component that a node belongs to.
func (b *builder) byUID(uid stream.UID) *Component {
	for _, c := range b.components {
		if c.UID == uid || c.from == uid || c.takesLetters() && c.UID+"-letters" == uid || c.counted != nil && c.counterUID() == uid {
			return c
		}
	}
	return nil
}

// implied are findings about the graph that the loader has reported already, where
// it found them.
var implied = []string{"graph.kind", "graph.unknown_input", "graph.sink_input", "graph.no_input", "graph.cycle", "graph.max_parallelism", "graph.no_key", "graph.dead_letter"}

// checkGraph reports what the graph says about itself at the places that made it
// so.
func (b *builder) checkGraph() {
	seen := map[string]bool{}
	for _, err := range b.result.Graph.Validate() {
		var e *stream.Error
		if !errors.As(err, &e) || b.implied(e) || seen[e.Code+e.Subject] {
			continue
		}
		seen[e.Code+e.Subject] = true
		switch e.Code {
		case "graph.name":
			if n := b.root.get("name"); n != nil && !n.broken && !b.reported("name") {
				b.add(b.root.get("name").pos, "name", e.Code, fmt.Sprintf("%s cannot be the name of a pipeline", quote(b.spec.Name)), sentence(e))
			}
		case "graph.no_source", "graph.no_sink":
			b.missing(e)
		default:
			b.checkNode(e)
		}
	}
}

// implied reports whether an error of the graph needs no word of its own; of a
// node that could be made, every error does.
func (b *builder) implied(e *stream.Error) bool {
	for _, code := range implied {
		if e.Code == code {
			return b.problems.Failed()
		}
	}
	return false
}

func sentence(e *stream.Error) string { return strings.TrimSpace(e.Err.Error()) }

// missing reports an empty section, unless its components have problems of their
// own.
func (b *builder) missing(e *stream.Error) {
	s := Section(strings.TrimPrefix(e.Code, "graph.no_") + "s")
	if len(b.sectionEntries(s)) == 0 && b.whole(s) {
		at := Pos{}
		if n := b.root.get(string(s)); n != nil {
			at = n.at()
		}
		b.add(at, string(s), e.Code, sentence(e), "add it under "+string(s)+":")
	}
}

func (b *builder) checkNode(e *stream.Error) {
	c := b.byUID(stream.UID(e.Subject))
	if c == nil {
		b.add(Pos{}, "", e.Code, sentence(e), e.Fix)
		return
	}
	path, at := c.node.path, c.node.at()
	if c.common.UID != "" && (e.Code == "graph.uid" || e.Code == "graph.duplicate_uid") {
		path, at = child(path, "uid"), c.node.get("uid").pos
	}
	switch e.Code {
	case "graph.uid":
		b.add(at, path, e.Code, fmt.Sprintf("%s cannot be the name of a component", quote(e.Subject)), sentence(e))
	case "graph.duplicate_uid":
		b.duplicateUID(e.Subject)
	case "graph.parallelism":
		n := c.node.get("parallelism")
		if n == nil {
			n = b.root.find("parallelism")
		}
		b.add(valueAt(n), n.path, e.Code, sentence(e), "lower parallelism, or raise max_parallelism before the first checkpoint fixes it")
	default:
		b.add(at, path, e.Code, sentence(e), e.Fix)
	}
}

func (b *builder) duplicateUID(uid string) {
	var first *Component
	for _, c := range b.components {
		if string(c.UID) != uid && string(c.from) != uid && (!c.takesLetters() || string(c.UID)+"-letters" != uid) {
			continue
		}
		if first == nil {
			first = c
			continue
		}
		c.Problem("uid", "graph.duplicate_uid", fmt.Sprintf("the uid %s is that of %s in line %d, too: they would share their state", quote(uid), first.node.path, first.node.key.Line), "give one of the two another uid")
	}
}
