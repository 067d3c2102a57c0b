package verify

import (
	"fmt"
	"slices"
	"strings"

	"etl/expr"
	"etl/stream"
)

// plan is a compiled Spec: components in an order in which inputs come first, and
// the feeds that end in aggregates and sink topics.
type plan struct {
	nodes   map[string]*node
	order   []*node
	roots   map[*node]*step // of each source, what follows it
	aggs    []*aggregate
	targets []*target
	lasts   []*lastRows
	leftOut []string // sinks to endpoints that nothing is known of

	atLeastOnce bool
}

// step is a component on the way of a record. The ways form a tree: a component
// that is reached twice stands in it twice.
type step struct {
	n    *node
	next []*step
	feed *feed // where the way ends
}

// feed is one way from a source or an aggregate to an aggregate or a sink.
type feed struct {
	from  *node
	chain []*node // in between
	to    *node
	// ordered says that the way keeps the order of what goes in: no hop deals its
	// records out over another number of subtasks.
	ordered bool
	// one says that each record gives exactly one.
	one bool
	// carried are the fields of the value that hold the fields an aggregate emitted,
	// in their order; "" for one that is not passed on as it was.
	carried []string
	// shown are those fields as the rows of a sink hold them.
	shown []string
	// shape are the fields of the values, nil when they are not known.
	shape []string

	index int // among the feeds of its end
}

func (f *feed) String() string {
	names := []string{f.from.name}
	for _, n := range f.chain {
		names = append(names, n.name)
	}
	return strings.Join(append(names, f.to.name), " -> ")
}

// newPlan compiles a pipeline.
func newPlan(s *Spec) (*plan, error) {
	p := &plan{nodes: map[string]*node{}, roots: map[*node]*step{}, atLeastOnce: s.AtLeastOnce}
	if err := p.compile(s); err != nil {
		return nil, err
	}
	for _, n := range p.order {
		if n.source == nil && n.agg == nil {
			continue
		}
		root := &step{n: n}
		p.grow(root, &feed{from: n, ordered: true, one: true, shape: emitted(n), carried: emitted(n)}, n.parallelism)
		if n.source != nil {
			p.roots[n] = root
		}
	}
	for _, a := range p.aggs {
		for _, f := range a.feeds {
			if f.from.agg != nil {
				a.behind = f.from.name
			}
		}
	}
	return p, nil
}

// grow adds to at what takes from its component; way is how a record comes there.
func (p *plan) grow(at *step, way *feed, parallelism int) {
	for _, n := range p.order {
		if !slices.Contains(n.inputs, at.n.name) {
			continue
		}
		s, f := &step{n: n}, *way
		f.chain, f.carried = slices.Clone(way.chain), slices.Clone(way.carried)
		at.next = append(at.next, s)
		if n.agg == nil && n.parallelism != parallelism {
			f.ordered = false
		}
		if n.agg != nil || n.sink != nil {
			f.to, s.feed = n, &f
			p.end(&f)
			continue
		}
		f.chain = append(f.chain, n)
		f.one = f.one && n.typ == "map"
		f.follow(n)
		p.grow(s, &f, n.parallelism)
	}
}

// end makes the feed known where it ends.
func (p *plan) end(f *feed) {
	if a := f.to.agg; a != nil {
		f.index = len(a.feeds)
		a.feeds = append(a.feeds, f)
		return
	}
	if l := f.to.sink.last; l != nil {
		l.feeds = append(l.feeds, f)
		return
	}
	t := f.to.sink.target
	f.shown = f.carried
	switch {
	case f.to.sink.fields != nil:
		f.shown, f.shape = renamedAll(f.to, f.carried), f.to.names
	case f.to.sink.value != nil:
		f.shown, f.shape = make([]string, len(f.carried)), nil
	}
	f.index = len(t.feeds)
	t.feeds = append(t.feeds, f)
}

// emitted returns the fields of the values that a source or aggregate emits.
func emitted(n *node) []string {
	if n.agg == nil {
		return nil
	}
	return slices.Clone(n.names)
}

// seesPlace reports whether an expression on the way may see where a record came from.
func (f *feed) seesPlace() bool {
	for _, n := range append(slices.Clone(f.chain), f.to) {
		for _, p := range append(slices.Clone(n.programs), n.where, n.each) {
			if p != nil && strings.Contains(p.Source(), "meta") {
				return true
			}
		}
	}
	s := f.to.sink
	return s != nil && (s.key != nil && strings.Contains(s.key.Source(), "meta") || s.value != nil && strings.Contains(s.value.Source(), "meta"))
}

// follow updates shape and carried fields for a component that the records pass.
func (f *feed) follow(n *node) {
	if n.typ == "filter" {
		return
	}
	f.shape, f.carried = n.names, renamedAll(n, f.carried)
}

// renamedAll returns the fields of n's output that are fields of its input.
func renamedAll(n *node, fields []string) []string {
	out := make([]string, len(fields))
	for i, name := range fields {
		if name != "" {
			out[i] = renamed(n, name)
		}
	}
	return out
}

// renamed returns the field of n's output that is the field name of its input, or "".
func renamed(n *node, name string) string {
	for i, p := range n.programs {
		if to, ok := strings.CutPrefix(strings.TrimSpace(p.Source()), "this."); ok && (to == name || n.alias(to) == name) {
			return n.names[i]
		}
	}
	return ""
}

// compile makes the nodes in the order of their inputs.
func (p *plan) compile(s *Spec) error {
	for i := range s.Sources {
		if err := p.addSource(&s.Sources[i]); err != nil {
			return err
		}
	}
	for left := len(s.Transforms); left > 0; {
		before := left
		for i := range s.Transforms {
			t := &s.Transforms[i]
			if p.nodes[t.Name] == nil && p.have(t.Inputs) {
				if err := p.addTransform(t); err != nil {
					return err
				}
				left--
			}
		}
		if left == before {
			return problem("graph", s.Name, "a transform takes from something that does not exist, or from itself")
		}
	}
	for i := range s.Sinks {
		if err := p.addSink(&s.Sinks[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p *plan) have(inputs []string) bool {
	for _, in := range inputs {
		if p.nodes[in] == nil {
			return false
		}
	}
	return true
}

func problem(code, subject, format string, args ...any) error {
	return stream.Errorf(stream.BadConfig, "verify."+code, "verify", subject, format, args...)
}

// add makes a node, and returns it with the schema of its input.
func (p *plan) add(name, typ string, inputs []string, onError string, parallelism int) (*node, *stream.Schema, error) {
	n := &node{name: name, typ: typ, inputs: inputs, skip: onError == "skip", parallelism: max(parallelism, 1), ev: expr.NewEvaluator()}
	if p.nodes[name] != nil {
		return nil, nil, problem("graph", name, "two components have this name")
	}
	var schemas []*stream.Schema
	for _, in := range inputs {
		if p.nodes[in] == nil {
			return nil, nil, problem("graph", name, "there is no component %q", in)
		}
		schemas = append(schemas, p.nodes[in].out)
	}
	p.nodes[name] = n
	p.order = append(p.order, n)
	if len(schemas) == 0 {
		return n, nil, nil
	}
	in, err := join(schemas)
	if err != nil {
		return nil, nil, problem("graph", name, "%v", err)
	}
	n.in = in
	return n, in, nil
}

// alias returns the field that a name of the input stands for.
func (n *node) alias(name string) string { return n.in.Alias[name] }

// compileIn compiles an expression of a component.
func compileIn(component, what, src string, env expr.Env) (*expr.Program, error) {
	prog, err := expr.Compile(src, env)
	if err != nil {
		return nil, fmt.Errorf("%s.%s: %w", component, what, err)
	}
	return prog, nil
}
