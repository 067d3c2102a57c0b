package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"etl/checkpoint"
	"etl/pipeline"
	"etl/stream"
	"etl/transform"
)

// Idempotent is how an idempotent sink tells an older value of a key from a newer one, as
// its file asks for it: the keys delivery, version and key of the component.
type Idempotent struct {
	// Version is auto, counter, position or none; None says why a sink can have no guard,
	// "" when it can.
	Version string
	None    string
	// KeyPath is the key of the component that gives the key, Key its expressions, and By
	// what distributes records by it.
	KeyPath string
	Key     []string
	By      *pipeline.Key
}

// Guard settles the guard of an idempotent sink: counter, position or none. It refuses
// what would not end with the right values, puts what the paths give into parts, and has
// somebody count: the aggregate that makes the rows, or an operator before the sink.
func (c *Component) Guard(i Idempotent, parts *Parts) string {
	if !c.Known("inputs", "delivery", "version", i.KeyPath) || c.refused(i.KeyPath) || !c.repeatable(i) {
		return "none"
	}
	guard, note := c.guard(i)
	if guard == "none" {
		note = "no guard (" + note + "): in a recovery readers may see older values for a while, and a stalled old process may leave one until the key is written again"
	}
	parts.Limits = append(parts.Limits, Limit{Level: EffectivelyOnce, Setting: "delivery: idempotent",
		Why: "effectively once: readers may see values repeat during recovery"})
	parts.Notes = append(parts.Notes, note)
	return guard
}

// repeatable reports whether a replay gives the rows of a key again.
func (c *Component) repeatable(i Idempotent) bool {
	bad := func(path, why, fix string) bool {
		c.Problem(path, "sink.idempotent", why, fix)
		return false
	}
	switch mode := c.Job.Policy.Mode; {
	case mode != checkpoint.ExactlyOnce:
		return bad("delivery", fmt.Sprintf("idempotent needs checkpoints of mode exactly_once: under mode %s state may count records twice, and a replay then gives other values", mode), "set checkpoint.mode: exactly_once, or delivery: at_least_once")
	case c.takesLetters():
		return bad("delivery", "dead letters have no key, and a repeated one would be there twice", "write them with another delivery")
	case len(i.Key) == 0:
		return bad(i.KeyPath, "idempotent needs a key: without one a replay adds rows instead of replacing them", "name the key, or use another delivery")
	}
	for _, a := range c.ancestors() {
		if o := a.parts.Operator; o != nil && o.NonDeterministic != "" {
			return bad("delivery", fmt.Sprintf("%s may give other values in a replay (%s), so that repeating is not harmless", a.Name, o.NonDeterministic), "use delivery: two_phase or wal, or make the path deterministic")
		}
	}
	if !c.aggregated() {
		return true
	}
	if _, why := c.origin(i.Key); why != "" {
		return bad("delivery", "a replay may give other rows, and those of before would stay: "+why, "write the key of the aggregate and nothing between, or use delivery: two_phase or wal")
	}
	return true
}

// aggregated reports whether the rows come from an aggregate.
func (c *Component) aggregated() bool { return slices.ContainsFunc(c.ancestors(), (*Component).keyed) }

// ancestors are all components before c, each once.
func (c *Component) ancestors() (out []*Component) {
	for _, in := range c.inputs {
		for _, a := range append(in.ancestors(), in.Component) {
			if !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}

// keyed reports whether the component keeps keyed state.
func (c *Component) keyed() bool { return c.parts.Operator != nil && len(c.parts.Operator.Keyed) > 0 }

func (c *Component) guard(i Idempotent) (guard, note string) {
	switch {
	case i.None != "":
		if i.Version != "auto" && i.Version != "none" {
			c.Problem("version", "sink.version", i.None, "write version: none")
		}
		return "none", i.None
	case i.Version == "none":
		return "none", "version: none"
	case i.Version == "position":
		if why := c.scattered(i.Key); why != "" {
			c.Problem("version", "sink.version", "the position of a record is no version here: "+why, "write version: counter")
		}
		return "position", "guard: the position of the record; a replay never shows an older value, as long as producers keep each key in one partition"
	case !c.aggregated():
		c.counted = i.By
		return "counter", "guard: a counter of each key, kept in the state of " + string(c.counterUID()) + "; a replay never shows an older value"
	}
	from, _ := c.origin(i.Key)
	from.parts.Versioned()
	return "counter", "guard: the number of records of the key, kept in the state of " + from.Name + "; a replay never shows an older value"
}

var plainField = regexp.MustCompile(`^this\.([A-Za-z_][A-Za-z0-9_]*)$`)

// fieldOf returns the field that an expression over the records of from stands for.
func fieldOf(text string, from *Component) (string, bool) {
	m := plainField.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return "", false
	}
	if to, ok := from.out.Alias[m[1]]; ok {
		return to, true
	}
	return m[1], true
}

// origin follows the key back to the aggregate whose key it is, or says why there is none.
//
// What an aggregate emits between two checkpoints depends on when they are taken, and on
// the order of records of several partitions. A replay gives each of its keys the same last
// value, and that replaces whatever was written. A row under another key than the
// aggregate's, or one that a filter lets through, may never be written again; and what a
// second aggregate counts is another number then.
func (c *Component) origin(key []string) (from *Component, why string) {
	at := c
	for {
		if len(at.inputs) != 1 {
			return nil, at.Name + " takes from several components, whose updates of a key have no order"
		}
		from := at.inputs[0].Component
		fields := make([]string, len(key))
		for i, text := range key {
			f, ok := fieldOf(text, from)
			if !ok {
				return nil, fmt.Sprintf("%s is not a field of what %s gives", text, from.Name)
			}
			fields[i] = f
		}
		switch from.Type {
		case "filter", "route":
			return nil, from.Name + " chooses among values of the aggregate that depend on when checkpoints are taken"
		case "map":
			if key, why = mapped(from, fields); why != "" {
				return nil, why
			}
		case "aggregate":
			if from.aggregated() {
				return nil, from.Name + " counts rows of another aggregate, whose number depends on when checkpoints are taken"
			}
			return from, from.notKey(fields)
		default:
			return nil, fmt.Sprintf("%s makes other rows of those of the aggregate", from.Name)
		}
		at = from
	}
}

// mapped returns the expressions behind fields that a map makes.
func mapped(from *Component, fields []string) (key []string, why string) {
	s, _ := from.spec.(*MapSpec)
	for _, f := range fields {
		i := slices.IndexFunc(s.Map, func(p Pair[Expr]) bool { return p.Key == f })
		if i < 0 {
			return nil, fmt.Sprintf("%s makes no field %s", from.Name, f)
		}
		key = append(key, string(s.Map[i].Value))
	}
	return key, ""
}

// notKey says why fields are not exactly the key of an aggregate, "" when they are.
func (c *Component) notKey(fields []string) string {
	var own []string
	for _, name := range c.out.Alias {
		own = append(own, name)
	}
	got := slices.Clone(fields)
	slices.Sort(own)
	slices.Sort(got)
	if own, got := slices.Compact(own), slices.Compact(got); !slices.Equal(own, got) {
		return fmt.Sprintf("the key of the sink is %s, and that of %s is %s", strings.Join(got, ", "), c.Name, strings.Join(own, ", "))
	}
	return ""
}

// scattered says why rows of a key may come from several partitions, "" when they do not,
// as far as a file can tell.
func (c *Component) scattered(key []string) string {
	places := 0
	for _, a := range c.ancestors() {
		places += len(a.parts.Reads)
		switch {
		case a.keyed():
			return a.Name + " combines records of several positions"
		case a.Type == "flat_map":
			return a.Name + " makes several rows of one record"
		}
	}
	if places != 1 {
		return fmt.Sprintf("the rows come from %d topics", places)
	}
	if len(key) != 1 || strings.TrimSpace(key[0]) != "meta.key" {
		return "only records of one key (meta.key) are in one partition, and the key of the sink is " + strings.Join(key, ", ")
	}
	return ""
}

func (c *Component) counterUID() stream.UID { return c.UID + "-version" }

// counterNode is the operator that counts the rows of each key before the sink n, and
// takes over its inputs.
func (c *Component) counterNode(n *pipeline.Node) *pipeline.Node {
	v := transform.Version{}
	counter := &pipeline.Node{UID: c.counterUID(), Kind: pipeline.OperatorKind, Type: "version", Of: c.UID, Parallelism: n.Parallelism, OnError: n.OnError,
		Inputs: n.Inputs, Out: c.Schema(), Operator: &pipeline.Operator{New: v.New, Keyed: v.Descriptors()}}
	for i := range counter.Inputs {
		counter.Inputs[i].Key = c.counted
	}
	n.Inputs = []pipeline.Input{{From: counter.UID}}
	return counter
}
