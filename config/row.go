package config

import (
	"etl/expr"
	"etl/stream"
)

// CompileObject compiles the fields of an object that is written as it stands.
func (c *Component) CompileObject(path string, fields Map[Expr], env expr.Env) *expr.Fields {
	var names []string
	var programs []*expr.Program
	for _, f := range c.CompileFields(path, fields, env) {
		names, programs = append(names, f.Name), append(programs, f.Value)
	}
	return expr.NewFields(names, programs)
}

// ValueAndMap reports a sink that gives both of the two.
func (c *Component) ValueAndMap(value Expr, fields Map[Expr]) bool {
	both := len(fields) > 0 && value != ""
	if both {
		c.Problem("value", "sink.value", "value and map exclude each other", "remove one of the two")
	}
	return both
}

// CompileDocument compiles the row of a sink that writes JSON: value: or map: or, where the
// sink gives neither, text as a JSON text. Both are nil for records that are JSON as they
// are. raw is the code for bytes, which are not.
func (c *Component) CompileDocument(value Expr, fields Map[Expr], raw string) (*expr.Program, *expr.Fields) {
	in := c.Schema()
	env := expr.Env{This: in}
	switch {
	case c.ValueAndMap(value, fields):
	case len(fields) > 0:
		return nil, c.CompileObject("map", fields, env)
	case value != "":
		return c.Compile("value", value, env), nil
	case in.Format == stream.Text:
		return c.Compile("format", "this", env), nil
	case in.Format == stream.Raw && c.Known("value", "map"):
		c.Problem("", raw, "the records are raw bytes, which are no JSON", "give value: or map:, or decode: json at the source")
	}
	return nil, nil
}
