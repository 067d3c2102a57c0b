package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"etl/expr"
	"etl/stream"
)

// section decodes the components of a section.
func (b *builder) section(s Section) {
	n := b.root.get(string(s))
	if n == nil {
		return
	}
	if n.kind != mapNode {
		b.add(n.pos, n.path, "config.type", fmt.Sprintf("the section is %s, not a group of named components", n.kind), "write name: { type: ... } below it, or remove it")
		return
	}
	for _, e := range n.entries {
		c := b.component(s, e)
		switch {
		case s == Connections:
			b.connections[c.Name] = c
			continue
		case b.nameTaken(c):
			continue
		case s != Sinks:
			b.named[c.Name] = c
		}
		b.components = append(b.components, c)
	}
}

func (b *builder) nameTaken(c *Component) bool {
	for _, other := range b.components {
		if other.Name == c.Name {
			b.add(c.node.key, c.node.path, "config.duplicate_name",
				fmt.Sprintf("the name %s is taken by %s in line %d", quote(c.Name), other.node.path, other.node.key.Line), "give one of the two another name; uid: keeps its state")
			return true
		}
	}
	return false
}

// component decodes one component: its type first, which says what the other keys
// may be.
func (b *builder) component(s Section, e entry) *Component {
	c := &Component{Name: e.name, UID: stream.UID(e.name), Section: s, Job: b.info, node: e.value, build: b, out: anySchema, from: stream.UID(e.name)}
	d := &decoder{b.document}
	t := b.typeOf(c)
	shared := reflect.New(commonOf(s))
	if e.value.kind == mapNode {
		d.fields(e.value, shared.Elem())
	}
	if t == nil {
		d.misspeltType(e.value, s)
	} else {
		spec := reflect.New(t.spec)
		d.fields(e.value, spec.Elem())
		d.unknown(e.value, nil, groupOf(commonOf(s)), groupOf(t.spec))
		c.spec, c.Type = spec.Interface(), t.word
	}
	c.take(shared.Interface())
	return c
}

// typeOf finds the type word.
func (b *builder) typeOf(c *Component) *componentType {
	n := c.node
	if n.kind != mapNode {
		b.add(valueAt(n), n.path, "config.type", fmt.Sprintf("the component is %s, not a group of keys", n.kind), "write { type: ... }")
		return nil
	}
	words := b.registry.words(c.Section)
	word := n.get("type")
	if word == nil { // fields reports it
		return nil
	}
	if word.kind != textNode {
		return nil // fields reports it
	}
	t := b.registry.types[c.Section][word.text]
	if t == nil {
		fix := "the types of " + string(c.Section) + " are " + strings.Join(words, ", ")
		if near := expr.Near(word.text, words); len(near) > 0 {
			fix = "did you mean " + oneOf(near) + "?"
		}
		b.add(word.pos, word.path, "config.unknown_type", fmt.Sprintf("there is no %s type %s", strings.TrimSuffix(string(c.Section), "s"), quote(word.text)), fix)
	}
	return t
}

// misspeltType reports a key that may be meant to be the type that is missing. Of the others
// nobody knows whether they are right.
func (d *decoder) misspeltType(n *node, s Section) {
	if n.get("type") != nil {
		return
	}
	for _, e := range n.entries {
		if _, known := groupOf(commonOf(s)).get(e.name); !known && len(expr.Near(e.name, []string{"type"})) > 0 {
			d.unknown(&node{kind: mapNode, path: n.path, entries: []entry{e}}, nil, groupOf(commonOf(s)))
			return
		}
	}
}

// take copies the shared keys.
func (c *Component) take(shared any) {
	switch s := shared.(type) {
	case *connectionCommon:
	case *sourceCommon:
		c.common, c.decode = common{Type: s.Type, UID: s.UID, Parallelism: s.Parallelism, OnError: s.OnError, DeadLetter: s.DeadLetter}, s.Decode
	case *sinkCommon:
		c.common = common(*s)
	case *common:
		c.common = *s
	}
	if c.common.UID != "" {
		c.UID, c.from = stream.UID(c.common.UID), stream.UID(c.common.UID)
	}
	c.Parallelism = c.common.Parallelism
	if c.Parallelism == 0 {
		c.Parallelism = max(c.Job.Parallelism, 1)
	}
}

// link finds the components that inputs and dead letters name.
func (b *builder) link() {
	for _, c := range b.components {
		for i, name := range c.common.Inputs {
			c.input(i, name)
		}
	}
	b.linkLetters()
}

func (c *Component) input(i int, name string) {
	path := element("inputs", i)
	if n := c.node.get("inputs"); n != nil && n.kind != listNode {
		path = "inputs"
	}
	before, output, _ := strings.Cut(name, ".")
	from := c.build.named[before]
	in := input{from, stream.Tag(output)}
	switch {
	case from == nil && !c.build.whole(Sources, Transforms):
		c.build.doubt(c.path(path))
	case from == nil:
		c.unknownInput(path, before)
	case from == c:
		c.dangling(path, "graph.cycle", "the component is its own input", "name another component")
	case slices.Contains(c.inputs, in):
		c.dangling(path, "graph.duplicate_input", fmt.Sprintf("%s is listed twice: its records would come twice", quote(name)), "list it once")
	default:
		c.inputs = append(c.inputs, in)
	}
}

// input is what a component takes from another one.
type input struct {
	*Component
	// output is one of those of a route, "" for the only one.
	output stream.Tag
}

// String returns the input as the file writes it.
func (in input) String() string {
	if in.output == "" {
		return in.Name
	}
	return in.Name + "." + string(in.output)
}

// checkOutputs reports inputs that name an output that is not there, or none where
// there are several.
func (b *builder) checkOutputs() {
	for _, c := range b.components {
		for _, in := range c.inputs {
			path := "inputs"
			if i := slices.Index(c.common.Inputs, in.String()); i >= 0 && c.Has(element(path, i)) {
				path = element(path, i)
			}
			var names []string
			for _, o := range in.parts.Outputs {
				names = append(names, in.Name+"."+string(o))
			}
			switch {
			case b.doubts(in.path("type"), in.path("route"), in.path("default")): // its outputs are not known
			case in.output == "" && len(names) > 0:
				c.dangling(path, "graph.output", fmt.Sprintf("%s has several outputs, and this names none of them", quote(in.Name)), "name "+oneOf(names))
			case in.output == "" || slices.Contains(in.parts.Outputs, in.output):
			case in.parts.Operator == nil && in.parts.Source == nil: // it could not be made
			case len(names) == 0:
				c.dangling(path, "graph.output", fmt.Sprintf("%s has one output, which has no name", quote(in.Name)), "write "+in.Name)
			default:
				fix := "name " + oneOf(names)
				if near := expr.Near(in.String(), names); len(near) > 0 {
					fix = "did you mean " + oneOf(near) + "?"
				}
				c.dangling(path, "graph.output", fmt.Sprintf("%s has no output %s", quote(in.Name), quote(string(in.output))), fix)
			}
		}
	}
}

func (c *Component) unknownInput(path, name string) {
	var names []string
	for _, o := range c.build.components {
		if o.Section != Sinks && o != c {
			names = append(names, o.Name)
		}
		if o.Section == Sinks && o.Name == name {
			c.dangling(path, "graph.sink_input", fmt.Sprintf("%s is a sink: it has no output", quote(name)), "name the component that the sink takes from")
			return
		}
	}
	fix := "the components with output are " + strings.Join(names, ", ")
	if near := expr.Near(name, names); len(near) > 0 {
		fix = "did you mean " + oneOf(near) + "?"
	}
	c.dangling(path, "graph.unknown_input", fmt.Sprintf("there is no component %s", quote(name)), fix)
}

// ordered returns connections, then every component after its inputs. A circle is
// reported once, and cut where it was found.
func (b *builder) ordered() []*Component {
	var out []*Component
	for _, e := range b.sectionEntries(Connections) {
		out = append(out, b.connections[e])
	}
	var trail []*Component
	var visit func(c *Component)
	visit = func(c *Component) {
		if i := slices.Index(trail, c); i >= 0 {
			b.circle(trail[i:])
			return
		}
		if c.visited {
			return
		}
		trail = append(trail, c)
		for _, in := range c.inputs {
			visit(in.Component)
		}
		for _, in := range c.letters {
			visit(in)
		}
		trail = trail[:len(trail)-1]
		c.visited = true
		out = append(out, c)
	}
	for _, c := range b.components {
		visit(c)
	}
	return out
}

func (b *builder) sectionEntries(s Section) (names []string) {
	if n := b.root.get(string(s)); n != nil {
		for _, e := range n.entries {
			names = append(names, e.name)
		}
	}
	return names
}

func (b *builder) circle(round []*Component) {
	var names []string
	for i := len(round) - 1; i >= 0; i-- {
		names = append(names, round[i].Name)
	}
	first := round[len(round)-1]
	if first.Section == Sinks { // it has no other output
		first.Problem("on_error", "graph.cycle", "dead letters go in a circle: "+strings.Join(names, " -> ")+" -> "+names[0], "let one of these sinks fail or skip, or write its dead letters to another one")
		return
	}
	first.Problem("inputs", "graph.cycle", "the components take from each other in a circle: "+strings.Join(names, " -> ")+" -> "+names[0], "a pipeline flows in one direction: remove one of these inputs")
}

// make has the component made by its type.
func (c *Component) make() {
	t := c.build.registry.types[c.Section][c.Type]
	if t == nil {
		return
	}
	if t.section == Connections {
		if t.check != nil {
			t.check(c, c.spec)
		}
		return
	}
	if len(c.inputs) > 1 && c.Schema() == nil {
		c.mixed()
		return
	}
	c.parts = t.build(c, c.spec)
	switch {
	case c.build.doubts(c.path("")): // what it gives is not known
	case c.Section == Sources && c.parts.Out == nil:
		c.out = c.decode.schema()
	case c.parts.Out != nil:
		c.out = c.parts.Out
	}
	if c.decoded() {
		c.from = c.UID + "-decode"
	}
}

// mixed reports inputs whose records are read in different ways.
func (c *Component) mixed() {
	var parts []string
	for _, in := range c.inputs {
		parts = append(parts, in.String()+" gives "+in.out.Format.String())
	}
	c.Problem("inputs", "graph.mixed_formats", "the inputs have different formats: "+strings.Join(parts, ", "), "map them to JSON first, or use the same decode: for all")
	c.out = anySchema
}

// decoded reports whether a decode step stands behind the component.
func (c *Component) decoded() bool {
	return c.Section == Sources && c.parts.Out == nil && c.decode.Format != "raw"
}
