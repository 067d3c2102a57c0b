package config

import (
	"fmt"
	"maps"
	"slices"

	"etl/expr"
	"etl/pipeline"
	"etl/stream"
	"etl/transform"
)

// letterFields is the schema of dead letters as objects.
var letterFields, _ = transform.Letters{}.OutputSchema(nil)

// RawLetters reports whether the component is a sink of dead letters, and has them
// come as records, for sinks that can keep one as it is: the original key and value,
// and what happened in headers ([stream.Letter]). All other sinks get them as objects
// of fields ([transform.Letters]). Call it before Schema.
func (c *Component) RawLetters() bool {
	c.raw = c.takesLetters()
	return c.raw
}

// LettersOf returns the names of the components whose dead letters it takes.
func (c *Component) LettersOf() (names []string) {
	for _, from := range c.letters {
		names = append(names, from.Name)
	}
	return names
}

// LettersAreRaw reports whether these come as records.
func (c *Component) LettersAreRaw() bool { return c.raw }

func (c *Component) takesLetters() bool { return len(c.letters) > 0 }

// linkLetters finds the sinks of dead letters.
func (b *builder) linkLetters() {
	sinks := map[string]*Component{}
	for _, c := range b.components {
		if c.Section == Sinks {
			sinks[c.Name] = c
		}
	}
	def := b.spec.DeadLetter.Sink
	if def != "" && sinks[def] == nil && b.whole(Sinks) {
		n := b.root.find("dead_letter.sink")
		b.add(valueAt(n), n.path, "graph.unknown_sink", b.noSink(def), nearSink(def, sinks))
		b.doubt("dead_letter")
	}
	for _, c := range b.components {
		c.linkLetters(sinks, def)
	}
	for _, c := range b.components {
		if c.Section == Sinks {
			c.checkSink(def)
		}
	}
}

// linkLetters finds the sink of the component's dead letters.
func (c *Component) linkLetters(sinks map[string]*Component, def string) {
	if c.common.OnError != string(pipeline.DeadLetter) {
		if c.common.DeadLetter != "" && !c.build.doubts(c.path("on_error")) {
			c.dangling("dead_letter", "graph.dead_letter", "it makes no dead letters: its on_error is "+c.common.OnError, "set on_error: dead_letter, or remove dead_letter")
		}
		return
	}
	name, path := c.common.DeadLetter, "dead_letter"
	if name == "" {
		name, path = def, "on_error"
	}
	to := sinks[name]
	switch {
	case name == "" && c.build.doubts(c.path("dead_letter"), "dead_letter"):
	case name == "":
		c.dangling(path, "graph.dead_letter", "no sink is named for its dead letters", "add dead_letter: NAME of a sink here, or at the top of the file for all components")
	case to == nil && (path == "on_error" || !c.build.whole(Sinks)): // reported elsewhere
	case to == nil:
		c.dangling(path, "graph.unknown_sink", c.build.noSink(name), nearSink(name, sinks))
	case to == c:
		c.dangling(path, "graph.cycle", "its dead letters would go to itself", "write fail or skip, or name another sink")
	default:
		to.letters = append(to.letters, c)
	}
}

// noSink says that a name is not that of a sink.
func (b *builder) noSink(name string) string {
	if c := b.named[name]; c != nil {
		return fmt.Sprintf("%s is one of the %s: dead letters go to a sink", quote(name), c.Section)
	}
	return fmt.Sprintf("there is no sink %s", quote(name))
}

func nearSink(name string, sinks map[string]*Component) string {
	if near := expr.Near(name, slices.Sorted(maps.Keys(sinks))); len(near) > 0 {
		return "did you mean " + oneOf(near) + "?"
	}
	return "name a sink"
}

// checkSink demands inputs, or dead letters.
func (c *Component) checkSink(def string) {
	n := c.node.get("inputs")
	given := n != nil
	switch {
	case given && n.kind == listNode && len(n.items) == 0:
		c.build.add(n.pos, n.path, "config.no_value", "nothing is listed", "inputs: the components whose output it takes")
	case given && c.takesLetters():
		c.Problem("inputs", "graph.dead_letter_inputs", fmt.Sprintf("the dead letters of %s come here, and other records as well", quote(c.letters[0].Name)), "write dead letters to a sink of their own")
	case given || c.takesLetters() || c.node.kind != mapNode || c.build.doubts(c.path("inputs")) || !c.build.addressed():
	case c.Name == def:
		c.Problem("", "graph.dead_letter", "no component has on_error: dead_letter: nothing comes here", "set on_error: dead_letter where records may be bad, or remove the sink")
	default:
		c.build.add(c.node.at(), child(c.node.path, "inputs"), "config.missing_key", `the key "inputs" is missing`, "inputs: the components whose output it takes")
	}
}

// letterInputs are the inputs of a sink of dead letters, and the node that makes
// objects of them when it wants those.
func (c *Component) letterInputs() (in []pipeline.Input, fields *pipeline.Node) {
	for _, from := range c.letters {
		if from.counted != nil {
			in = append(in, pipeline.Input{From: from.counterUID(), Tag: pipeline.DeadLetterTag})
		}
		in = append(in, pipeline.Input{From: from.from, Tag: pipeline.DeadLetterTag})
	}
	if !c.raw {
		fields = &pipeline.Node{UID: c.UID + "-letters", Kind: pipeline.OperatorKind, Type: "dead_letter", Of: c.UID, Parallelism: c.common.Parallelism,
			OnError: pipeline.Fail, Inputs: in, Out: letterFields, Operator: &pipeline.Operator{New: transform.Letters{}.New}}
		in = []pipeline.Input{{From: fields.UID}}
	}
	for i := range in {
		in[i].Key = c.parts.Key
	}
	return in, fields
}

// outputNames are the outputs of a route, as inputs name them.
func (c *Component) outputNames() (out []input) {
	for _, o := range c.parts.Outputs {
		out = append(out, input{c, o})
	}
	if len(out) == 0 {
		out = []input{{c, ""}}
	}
	return out
}

// letterTag is the output of dead letters.
const letterTag stream.Tag = pipeline.DeadLetterTag
