package config

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"etl/checkpoint"
	"etl/expr"
	"etl/pipeline"
	"etl/stream"
)

// Component is what a factory gets: one component of the file, its surroundings,
// and the way to report problems at the right place. Paths are relative to the
// component, such as topics[0] or start.offsets; "" is the component itself.
type Component struct {
	// Name is the component's key in the file, UID the name its state is kept under.
	Name    string
	UID     stream.UID
	Section Section
	Type    string
	Job     JobInfo
	// Parallelism is the number of its subtasks.
	Parallelism int

	common  common
	decode  Decode // sources
	spec    any
	node    *node
	build   *builder
	inputs  []input
	letters []*Component  // those whose dead letters it takes
	raw     bool          // dead letters come as records
	counted *pipeline.Key // by which rows are counted before the sink; see Versions
	parts   Parts
	out     *stream.Schema // what its users see
	from    stream.UID     // the node its users take from
	visited bool
	failed  bool       // an error of it was reported
	to      *Component // the connection that it names
	away    bool       // of a connection: its server cannot be asked
}

// Spec returns the keys of the component's type with defaults filled in: a pointer
// to the struct it was registered with.
func (c *Component) Spec() any { return c.spec }

// Inputs returns what it takes, as the file writes it.
func (c *Component) Inputs() (names []string) {
	for _, in := range c.inputs {
		names = append(names, in.String())
	}
	return names
}

// OnError returns what becomes of records it cannot process.
func (c *Component) OnError() string { return c.common.OnError }

// Decode returns how a source's values are read.
func (c *Component) Decode() Decode { return c.decode }

// JobInfo is what a factory may know about the job.
type JobInfo struct {
	Name           string
	Policy         checkpoint.Policy
	Parallelism    int
	MaxParallelism int
}

// Parts is what a factory makes of a component. Exactly one of Source, Operator
// and Sink is set, unless problems were reported: then the rest does not matter.
type Parts struct {
	Source   *pipeline.Source
	Operator *pipeline.Operator
	Sink     *pipeline.Sink
	// Key distributes the records of all inputs; nil keeps them where they are.
	Key *pipeline.Key
	// Out is the schema of what a transform emits. A source may leave it nil: it
	// emits raw records, which package config has decoded behind it.
	Out *stream.Schema
	// Outputs are the names of the outputs of a transform that has several; they are
	// side outputs of its operator.
	Outputs []stream.Tag
	// Detail is one line for plans: topics, an expression, a table.
	Detail string
	// Reads and Writes are the outside places of a source or sink.
	Reads, Writes []Place
	// Claims are outside names that no other component may use.
	Claims []Claim
	// Limits are the settings that make the guarantee weaker than exactly once.
	Limits []Limit
	// Versioned makes an operator count the records of each key for a sink behind it
	// (stream.Record.Version); nil when it cannot.
	Versioned func()
	// Notes are what the reader of the output should know, for plans, as far as it can
	// be told before a server is asked.
	Notes []string
	// Outage says of a sink, for plans, what an outage of its outside does: "any outage loses
	// nothing: ...". One whose transactions time out leaves it empty: that is arithmetic.
	Outage string
	// TimeoutKey is the key behind Sink.Features.Timeout, for messages.
	TimeoutKey string
	// Preflight connects and finds out what only the servers know; nil for nothing.
	Preflight func(ctx context.Context, w stream.World) (Facts, error)
	// Probe tries, by name, the rights that a run needs and a start does not try; nil for
	// nothing. It changes nothing.
	Probe func(ctx context.Context, w stream.World) []Found
	// Setup is what has to be done outside before the first run; nil for nothing.
	Setup *Setup
}

// Facts are what a component has learnt from its servers.
type Facts struct {
	// TransactionTimeout is the one that is really used; 0: not known.
	TransactionTimeout time.Duration
	// Notes replace those of Parts, now that the servers have been asked; nil keeps them.
	Notes []string
	// Found are problems at keys of the component.
	Found []Found
}

// Found is a problem that only a server could tell, with the key it is about, "" for the
// component.
type Found struct {
	Path string
	Err  error
	// Warning says that it stops nothing.
	Warning bool
}

// Place is something outside that is read or written, such as a topic of a cluster.
type Place struct{ System, Name string }

// Claim is an outside name with the key that gave it.
type Claim struct{ Kind, Name, Path string }

// Schema returns the schema of the component's input. Records of several inputs
// have what all of them have.
func (c *Component) Schema() *stream.Schema {
	switch {
	case c.raw:
		return stream.LetterSchema
	case c.takesLetters():
		return letterFields
	}
	var schemas []*stream.Schema
	for _, in := range c.inputs {
		schemas = append(schemas, in.out)
	}
	return unify(schemas)
}

// Reject reports an error. A Place inside it, or the position that an error of
// package expr carries, is mapped to the file.
func (c *Component) Reject(path string, err error) {
	n := c.node.find(path)
	p := Problem{Severity: Error, Path: c.path(path), Message: err.Error(), Code: "config.invalid"}
	at := n.at()
	var ee *expr.Error
	var se *stream.Error
	switch {
	case errors.As(err, &ee):
		p.Code, p.Message, at = ee.Code, ee.Message, c.build.locate(n, ee.Line, ee.Column)
		p.Fix = expressionFixes[ee.Code]
		if len(ee.Near) > 0 {
			p.Fix = "did you mean " + oneOf(ee.Near) + "?"
		}
	case errors.As(err, &se):
		bare := *se
		bare.Op, bare.Fix = "", ""
		p.Code, p.Message, p.Fix, at = se.Code, bare.Error(), se.Fix, valueAt(n)
	}
	before := len(c.build.problems)
	c.put(p.Severity, at, p.Path, p.Code, p.Message, p.Fix)
	if se != nil && len(c.build.problems) > before {
		c.build.problems[before].class = se.Class
	}
}

// put reports a problem, unless it follows from a key that is in doubt.
func (c *Component) put(s Severity, at Pos, path, code, message, fix string) {
	under := path != c.path("") // what is below a whole component is not all of it
	if !slices.ContainsFunc(c.build.unusable, func(p string) bool { return leads(p, path) || under && leads(path, p) }) {
		c.failed = c.failed || s == Error
		c.build.put(s, at, path, code, message, fix)
	}
}

// valueAt is the place of a scalar's value, or of the key of anything else.
func valueAt(n *node) Pos {
	if n.kind == mapNode || n.kind == listNode || n.kind == nullNode {
		return n.at()
	}
	return n.pos
}

// Problem reports an error in words.
func (c *Component) Problem(path, code, message, fix string) {
	c.put(Error, valueAt(c.node.find(path)), c.path(path), code, message, fix)
}

// Warn reports something that does not stop the pipeline.
func (c *Component) Warn(path, code, message, fix string) {
	c.put(Warning, valueAt(c.node.find(path)), c.path(path), code, message, fix)
}

// dangling reports that a key names something that is not there, which nothing explains
// but a mistake in that key.
func (c *Component) dangling(path, code, message, fix string) {
	c.put(Error, valueAt(c.node.find(path)), c.path(path), code, message, fix)
	c.build.doubt(c.path(path))
}

func (c *Component) path(path string) string {
	return join(child(string(c.Section), c.Name), path)
}

// Compile compiles an expression of the component. It returns nil when that
// failed, which is reported.
func (c *Component) Compile(path string, e Expr, env expr.Env) *expr.Program {
	if e == "" && c.build.doubts(c.path(path)) {
		return nil
	}
	p, err := expr.Compile(string(e), env)
	if err != nil {
		c.Reject(path, err)
		return nil
	}
	return p
}

// Has reports whether the file gives a value for a path, defaults not counted.
func (c *Component) Has(path string) bool {
	return c.node.find(path).path == c.path(path)
}

// Connected returns the keys of a connection of type S that the component names,
// or reports that there is none and returns nil.
func Connected[S any](c *Component, path, name string) *S {
	to := c.build.connections[name]
	if to == nil {
		c.unknownConnection(path, name)
		return nil
	}
	c.to = to
	s, ok := to.spec.(*S)
	if !ok && to.spec != nil {
		c.dangling(path, "config.connection_type", fmt.Sprintf("the connection %s has the type %s", quote(name), to.Type), "name a connection of another type")
	}
	return s
}

func (c *Component) unknownConnection(path, name string) {
	if !c.build.whole(Connections) {
		c.build.doubt(c.path(path))
		return
	}
	var names []string
	for _, p := range c.build.connections {
		names = append(names, p.Name)
	}
	fix := "define it under connections:"
	if near := expr.Near(name, names); len(near) > 0 {
		fix = "did you mean " + oneOf(near) + "?"
	}
	c.dangling(path, "config.unknown_connection", fmt.Sprintf("there is no connection %s", quote(name)), fix)
}

// expressionFixes are for mistakes of which nothing near is known. The text of the error
// says what was found, these what is wanted.
var expressionFixes = map[string]string{
	expr.CodeSyntax:       "see what is open before this place: a bracket, a quote, or an operator without its right side",
	expr.CodeUnknownField: "name a field that the input has, or leave it out",
	expr.CodeUnknownName:  "fields begin with this., metadata with meta.; text goes into quotes",
	expr.CodeType:         "give what is wanted here: convert the value, or compare it; a condition gives true or false",
	expr.CodeLimit:        "split it over several components",
	expr.CodeConstant:     "it fails for every record: mend the constant",
}
