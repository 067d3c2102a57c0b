package pipeline

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"

	"etl/stream"
)

// nameRule is what a job name and a UID look like: they become parts of file
// names, transactional ids and group names.
var nameRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)

// Validate returns everything that is wrong with the graph.
func (g *Graph) Validate() (errs []error) {
	bad := func(code, subject, format string, args ...any) {
		errs = append(errs, stream.Errorf(stream.BadConfig, "graph."+code, "", subject, format, args...))
	}
	if !nameRule.MatchString(g.Name) {
		bad("name", g.Name, "a job name has 1 to 100 letters, digits, '-' and '_' and begins with a letter or digit")
	}
	if m := g.maxParallelism(); m < 1 || m > 1<<15 {
		bad("max_parallelism", g.Name, "max_parallelism %d is not between 1 and 32768", m)
	}
	sources, sinks := 0, 0
	seen := map[stream.UID]bool{}
	for _, n := range g.Nodes {
		if !nameRule.MatchString(string(n.UID)) {
			bad("uid", string(n.UID), "a UID has 1 to 100 letters, digits, '-' and '_' and begins with a letter or digit")
		}
		if seen[n.UID] {
			bad("duplicate_uid", string(n.UID), "two components have this UID")
		}
		seen[n.UID] = true
		switch n.Kind {
		case SourceKind:
			sources++
		case SinkKind:
			sinks++
		}
		errs = append(errs, g.checkNode(n)...)
	}
	if sources == 0 {
		bad("no_source", g.Name, "a pipeline needs at least one source")
	}
	if sinks == 0 {
		bad("no_sink", g.Name, "a pipeline needs at least one sink")
	}
	if len(errs) == 0 {
		if _, err := g.sorted(); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func (g *Graph) checkNode(n *Node) (errs []error) {
	bad := func(code, format string, args ...any) {
		errs = append(errs, stream.Errorf(stream.BadConfig, "graph."+code, "", string(n.UID), format, args...))
	}
	if (n.Kind == SourceKind) != (n.Source != nil) || (n.Kind == OperatorKind) != (n.Operator != nil) || (n.Kind == SinkKind) != (n.Sink != nil) {
		bad("kind", "kind %q does not match what the component is made of", n.Kind)
	}
	if p, m := g.parallelism(n), g.maxParallelism(); p > m {
		bad("parallelism", "parallelism %d is more than max_parallelism %d", p, m)
	}
	if n.Kind == SourceKind && len(n.Inputs) > 0 {
		bad("source_input", "a source has no inputs")
	}
	if n.Kind != SourceKind && len(n.Inputs) == 0 {
		bad("no_input", "the component has no inputs")
	}
	if n.OnError == DeadLetter && !g.takesLetters(n.UID) {
		bad("dead_letter", "nobody takes its dead letters: they would be lost")
	}
	for _, in := range n.Inputs {
		from := g.Node(in.From)
		switch {
		case from != nil && in.Tag == DeadLetterTag && from.OnError != DeadLetter:
			bad("dead_letter", "input %q makes no dead letters: its on_error is %s", in.From, cmp.Or(from.OnError, Fail))
		case from == nil:
			bad("unknown_input", "input %q does not exist", in.From)
		case from.Kind == SinkKind && in.Tag == "":
			bad("sink_input", "input %q is a sink and emits nothing", in.From)
		}
		if n.Operator != nil && len(n.Operator.Keyed) > 0 && in.Key == nil {
			bad("no_key", "the component keeps keyed state, and input %q has no key", in.From)
		}
	}
	return errs
}

// takesLetters reports whether a component takes the dead letters of another one.
func (g *Graph) takesLetters(uid stream.UID) bool {
	return slices.ContainsFunc(g.Nodes, func(n *Node) bool {
		return slices.ContainsFunc(n.Inputs, func(in Input) bool { return in.From == uid && in.Tag == DeadLetterTag })
	})
}

// sorted returns the nodes with every input before its user.
func (g *Graph) sorted() ([]*Node, error) {
	const visiting, visited = 1, 2
	mark := map[stream.UID]int{}
	var out []*Node
	var visit func(n *Node) error
	visit = func(n *Node) error {
		switch mark[n.UID] {
		case visited:
			return nil
		case visiting:
			return stream.Errorf(stream.BadConfig, "graph.cycle", "", string(n.UID), "the component is its own input")
		}
		mark[n.UID] = visiting
		for _, in := range n.Inputs {
			from := g.Node(in.From)
			if from == nil {
				return fmt.Errorf("input %q of %s does not exist", in.From, n.UID)
			}
			if err := visit(from); err != nil {
				return err
			}
		}
		mark[n.UID] = visited
		out = append(out, n)
		return nil
	}
	for _, n := range g.Nodes {
		if err := visit(n); err != nil {
			return nil, err
		}
	}
	return out, nil
}
