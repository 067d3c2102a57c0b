package config

import (
	"fmt"
	"slices"
	"strings"
)

// unread returns the outputs that no component names under inputs.
func (b *builder) unread() (out []input) {
	for _, c := range b.components {
		if c.Section == Sinks {
			continue
		}
		for _, o := range c.outputNames() {
			used := slices.ContainsFunc(b.components, func(x *Component) bool { return slices.Contains(x.inputs, o) })
			named := slices.ContainsFunc(b.components, func(x *Component) bool { return slices.Contains(x.common.Inputs, o.String()) })
			if !used && !named {
				out = append(out, o)
			}
		}
	}
	return out
}

// checkUnused warns of output that nobody takes.
func (b *builder) checkUnused() {
	if !b.linked() {
		return
	}
	for _, o := range b.unread() {
		if !b.doubts(o.path("")) {
			b.put(Warning, o.node.at(), o.node.path, "graph.unused", "nothing takes the output of "+quote(o.String()), "name it under inputs: of a component, or remove it")
		}
	}
}

// offerInputs names, to components without inputs, what nobody takes yet: it may well be
// what was meant.
func (b *builder) offerInputs() {
	unread := b.unread()
	for _, c := range b.components {
		path := c.path("inputs")
		i := slices.IndexFunc(b.problems, func(p Problem) bool {
			return p.Path == path && (p.Code == "config.missing_key" || p.Code == "config.no_value")
		})
		if i < 0 {
			continue
		}
		var names []string
		for _, o := range unread {
			unnamed := o.Type == "route" && o.output == "" // its outputs are not known
			if o.Component != c && !slices.Contains(o.ancestors(), c) && !unnamed {
				names = append(names, o.String())
			}
		}
		if len(names) == 0 {
			continue
		}
		b.doubt(path) // that they are not taken is the same mistake
		switch len(names) {
		case 1:
			b.problems[i].Fix = fmt.Sprintf("inputs: [%s], whose output nobody takes yet", names[0])
		default:
			b.problems[i].Fix = fmt.Sprintf("inputs: the components whose output it takes; nobody takes that of %s yet", strings.Join(names, ", "))
		}
	}
}
