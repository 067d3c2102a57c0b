package config

import (
	"fmt"
	"regexp"
	"strings"

	"etl/checkpoint"
	"etl/expr"
	"etl/pipeline"
	"etl/stream"
	"etl/transform"
)

// The keys of the transforms.
type (
	// FilterSpec are the keys of filter.
	FilterSpec struct {
		Where Expr     `yaml:"where" required:"true" doc:"the condition under which a record passes"`
		_     struct{} `reserved:"on_reject"`
	}
	// MapSpec are the keys of map.
	MapSpec struct {
		Map Map[Expr] `yaml:"map" required:"true" doc:"the fields of the new value, in this order"`
	}
	// FlatMapSpec are the keys of flat_map.
	FlatMapSpec struct {
		Each  Expr      `yaml:"each" required:"true" doc:"a list; each of its elements, called it, becomes a record"`
		Where Expr      `yaml:"where" doc:"the condition under which an element becomes one"`
		Map   Map[Expr] `yaml:"map" doc:"the fields of the new values; without it the element is the value"`
	}
	// RouteSpec are the keys of route.
	RouteSpec struct {
		Route   Map[CaseSpec] `yaml:"route" required:"true" doc:"the outputs by name, each with its condition: a record goes to the first one that takes it. Inputs name them as ROUTE.OUTPUT"`
		Default string        `yaml:"default" doc:"the output of what no condition takes; without it, such a record is an error, for on_error to decide"`
	}
	// CaseSpec are the keys of one of its outputs.
	CaseSpec struct {
		When Expr `yaml:"when" word:"true" required:"true" doc:"the condition under which it takes a record"`
	}
	// AggregateSpec are the keys of aggregate.
	AggregateSpec struct {
		Key        []Expr               `yaml:"key" required:"true" one:"true" doc:"what records are grouped by: one expression or a list"`
		Aggregates Map[AggregationSpec] `yaml:"aggregates" required:"true" doc:"the results, by name"`
		Emit       string               `yaml:"emit" default:"on_checkpoint" oneof:"on_checkpoint|on_change" doc:"on_checkpoint emits each changed key once per checkpoint, on_change with every record that changes it"`
		_          struct{}             `reserved:"ttl ttl_update"`
	}
	// AggregationSpec are the keys of one of its results.
	AggregationSpec struct {
		Op    string `yaml:"op" word:"true" required:"true" oneof:"count|sum|min|max" doc:"what is computed; sums are exact"`
		Of    Expr   `yaml:"of" doc:"what it is computed of; count counts records without it, and values that are not null with it"`
		Where Expr   `yaml:"where" doc:"the records that take part"`
	}
)

func registerTransforms(r *Registry) {
	Register(r, Transforms, "filter", "passes the records for which a condition holds", makeFilter)
	Register(r, Transforms, "map", "replaces each value by an object of expressions", makeMap)
	Register(r, Transforms, "flat_map", "makes a record of each element of a list", makeFlatMap)
	Register(r, Transforms, "route", "sends each record to one of several outputs, by conditions", makeRoute)
	Register(r, Transforms, "aggregate", "keeps running results per key", makeAggregate)
}

func decodeOperator(d Decode) func() transform.Operator {
	return transform.Decode{Schema: d.schema(), Strict: d.Strict}.New
}

func makeFilter(c *Component, s *FilterSpec) Parts {
	where := c.Compile("where", s.Where, expr.Env{This: c.Schema(), Want: stream.Bool})
	return Parts{Operator: &pipeline.Operator{New: transform.Filter{Where: where}.New}, Out: c.Schema(), Detail: string(s.Where)}
}

func makeMap(c *Component, s *MapSpec) Parts {
	m := transform.Map{Fields: c.CompileFields("map", s.Map, expr.Env{This: c.Schema()})}
	return Parts{Operator: &pipeline.Operator{New: m.New}, Out: c.output("map", len(m.Fields) == len(s.Map), m, namesOnly(s.Map)), Detail: names(s.Map)}
}

// CompileFields compiles the fields of an object. Those that are wrong are
// reported and left out.
func (c *Component) CompileFields(path string, fields Map[Expr], env expr.Env) (out []transform.Field) {
	for _, f := range fields {
		if p := c.Compile(child(path, f.Key), f.Value, env); p != nil {
			out = append(out, transform.Field{Name: f.Key, Value: p})
		}
	}
	return out
}

// planned is an operator that knows what it emits.
type planned interface {
	OutputSchema(in *stream.Schema) (*stream.Schema, error)
}

// output asks an operator for its schema, unless its expressions are wrong: then it is what
// can be known all the same.
func (c *Component) output(path string, ok bool, p planned, otherwise *stream.Schema) *stream.Schema {
	if !ok {
		return otherwise
	}
	s, err := p.OutputSchema(c.Schema())
	if err != nil {
		c.Reject(path, err)
		return otherwise
	}
	return s
}

// namesOnly is the schema of a map whose expressions are wrong: its fields have names, so
// that a misspelt one is blamed where it stands, and not where its result is used.
func namesOnly[T any](m Map[T]) *stream.Schema {
	t := stream.Type{Kind: stream.Object}
	for _, f := range m {
		t.Fields = append(t.Fields, stream.Field{Name: f.Key, Type: stream.Type{Kind: stream.Any}})
	}
	return &stream.Schema{Format: stream.JSON, Type: t}
}

func names[T any](m Map[T]) string {
	var out []string
	for _, p := range m {
		out = append(out, p.Key)
	}
	return strings.Join(out, ", ")
}

func makeFlatMap(c *Component, s *FlatMapSpec) Parts {
	f := transform.FlatMap{Each: c.Compile("each", s.Each, expr.Env{This: c.Schema(), Want: stream.List})}
	ok := f.Each != nil
	var it stream.Type
	if ok {
		it = transform.ElementType(f.Each)
	}
	env := expr.Env{This: c.Schema(), It: &it}
	if s.Where != "" {
		where := env
		where.Want = stream.Bool
		f.Where = c.Compile("where", s.Where, where)
	}
	f.Map = c.CompileFields("map", s.Map, env)
	out := c.output("map", ok && len(f.Map) == len(s.Map), f, namesOnly(s.Map))
	return Parts{Operator: &pipeline.Operator{New: f.New}, Out: out, Detail: string(s.Each)}
}

func makeRoute(c *Component, s *RouteSpec) Parts {
	r := transform.Route{Default: stream.Tag(s.Default)}
	for _, x := range s.Route {
		when := c.Compile(child(child("route", x.Key), "when"), x.Value.When, expr.Env{This: c.Schema(), Want: stream.Bool})
		r.Cases = append(r.Cases, transform.Case{Output: stream.Tag(x.Key), When: when})
		c.checkOutput(child("route", x.Key), x.Key)
	}
	detail := names(s.Route)
	if s.Default != "" {
		c.checkOutput("default", s.Default)
		detail += ", default " + s.Default
	}
	return Parts{Operator: &pipeline.Operator{New: r.New}, Out: c.Schema(), Outputs: r.Outputs(), Detail: detail}
}

var outputRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)

func (c *Component) checkOutput(path, name string) {
	if !outputRule.MatchString(name) || stream.Tag(name) == letterTag {
		c.Problem(path, "route.output", quote(name)+" cannot be the name of an output", "use letters, digits, '-' and '_', but not "+string(letterTag))
	}
}

func makeAggregate(c *Component, s *AggregateSpec) Parts {
	a := transform.Aggregate{Key: c.compileKey(s), Emit: transform.OnCheckpoint}
	if s.Emit == "on_change" {
		a.Emit = transform.OnChange
	} else if c.Job.Policy.Mode == checkpoint.None {
		c.Problem("emit", "aggregate.emit", "on_checkpoint never emits under checkpoint.mode: none", "set emit: on_change")
	}
	for _, g := range s.Aggregates {
		a.Aggregations = append(a.Aggregations, c.aggregation(g))
	}
	ok := len(a.Key) == len(s.Key)
	for _, g := range a.Aggregations {
		ok = ok && (g.Op == transform.Count || g.Of != nil)
	}
	var texts []string
	for _, k := range s.Key {
		texts = append(texts, string(k))
	}
	op := &pipeline.Operator{New: a.New, Keyed: a.Descriptors()}
	p := Parts{Out: c.output("aggregates", ok, a, anySchema), Detail: names(s.Aggregates) + " " + s.Emit, Operator: op}
	p.Versioned = func() {
		v := a
		v.Versioned = true
		op.New, op.Keyed = v.New, v.Descriptors()
	}
	p.Key = &pipeline.Key{Text: strings.Join(texts, ", "), New: func() pipeline.Keyer { return transform.NewKeyer(a.Key) }}
	return p
}

func (c *Component) compileKey(s *AggregateSpec) (out []*expr.Program) {
	for i, k := range s.Key {
		path := element("key", i)
		if !c.Has(path) {
			path = "key"
		}
		p := c.Compile(path, k, expr.Env{This: c.Schema()})
		if p == nil {
			continue
		}
		if kind := p.Type().Kind; kind == stream.List || kind == stream.Object || kind == stream.Null {
			c.Problem(path, expr.CodeKeyKind, fmt.Sprintf("a key is a string, a number or a bool, not %s", kind), "name a field, or list several keys: [this.a, this.b]")
			continue
		}
		out = append(out, p)
	}
	return out
}

func (c *Component) aggregation(g Pair[AggregationSpec]) transform.Aggregation {
	path := child("aggregates", g.Key)
	out := transform.Aggregation{Name: g.Key, Op: transform.Op(g.Value.Op)}
	env := expr.Env{This: c.Schema()}
	if out.Op == transform.Sum {
		env.Want = stream.Decimal
	}
	switch {
	case g.Value.Of != "":
		out.Of = c.Compile(child(path, "of"), g.Value.Of, env)
	case out.Op != transform.Count && out.Op != "":
		c.Problem(path, "aggregate.of", fmt.Sprintf("%s needs to know of what", out.Op), "add of: this.field")
	}
	if g.Value.Where != "" {
		out.Where = c.Compile(child(path, "where"), g.Value.Where, expr.Env{This: c.Schema(), Want: stream.Bool})
	}
	return out
}
