package verify

import (
	"fmt"

	"etl/expr"
	"etl/expr/jsondoc"
	"etl/stream"
)

func (p *plan) addSource(s *Source) error {
	n, _, err := p.add(s.Name, "source", nil, s.OnError, s.Parallelism)
	if err != nil {
		return err
	}
	n.source, n.out = s, decodedSchema(s.Decode)
	switch s.Decode {
	case "", "json":
		n.decode = func(r *stream.Record) error { return n.ev.Check(r, !s.Lenient) }
	case "text":
		n.decode = func(r *stream.Record) error { return expr.CheckText(r.Value) }
	case "raw":
		n.decode = func(*stream.Record) error { return nil }
	default:
		return problem("decode", s.Name, "decode %q is not json, text or raw", s.Decode)
	}
	return nil
}

func (p *plan) addTransform(t *Transform) error {
	n, in, err := p.add(t.Name, t.Type, t.Inputs, t.OnError, t.Parallelism)
	if err != nil {
		return err
	}
	env := expr.Env{This: in}
	switch t.Type {
	case "filter":
		n.out = in
		n.where, err = condition(n, t.Where, env)
	case "map":
		err = n.mapped(t.Map, env)
	case "flat_map":
		err = n.flatMapped(t, env)
	case "aggregate":
		err = p.aggregated(n, t, env)
	default:
		err = problem("type", t.Name, "type %q is not filter, map, flat_map or aggregate", t.Type)
	}
	return err
}

func condition(n *node, src string, env expr.Env) (*expr.Program, error) {
	env.Want = stream.Bool
	return compileIn(n.name, "where", src, env)
}

func (n *node) mapped(fields []Field, env expr.Env) error {
	for _, f := range fields {
		prog, err := compileIn(n.name, "map."+f.Name, f.Value, env)
		if err != nil {
			return err
		}
		n.names, n.programs = append(n.names, f.Name), append(n.programs, prog)
	}
	n.fields = expr.NewFields(n.names, n.programs)
	n.out = fieldsSchema(n.names, n.programs)
	return nil
}

func (n *node) flatMapped(t *Transform, env expr.Env) (err error) {
	list := env
	list.Want = stream.List
	if n.each, err = compileIn(n.name, "each", t.Each, list); err != nil {
		return err
	}
	it := stream.Type{}
	if typ := n.each.Type(); typ.Kind == stream.List && typ.Elem != nil {
		it = *typ.Elem
	}
	env.It = &it
	if t.Where != "" {
		if n.where, err = condition(n, t.Where, env); err != nil {
			return err
		}
	}
	n.out = &stream.Schema{Format: stream.JSON, Type: it}
	if len(t.Map) == 0 {
		return nil
	}
	return n.mapped(t.Map, env)
}

func (p *plan) aggregated(n *node, t *Transform, env expr.Env) error {
	a := &aggregate{node: n, onChange: t.Emit == "on_change", known: map[string]uint32{}, groups: map[string]int32{}}
	n.agg = a
	p.aggs = append(p.aggs, a)
	for i, src := range t.Key {
		prog, err := compileIn(n.name, fmt.Sprintf("key[%d]", i), src, env)
		if err != nil {
			return err
		}
		a.keys = append(a.keys, prog)
	}
	a.nameKeys()
	for _, g := range t.Aggregates {
		it, err := newItem(n.name, g, env)
		if err != nil {
			return err
		}
		a.items = append(a.items, it)
	}
	a.describe()
	return nil
}

// nameKeys names the fields of the key: the last name of a plain path, else key, or
// key0, key1... in a list.
func (a *aggregate) nameKeys() {
	for i, prog := range a.keys {
		name, ok := prog.PathName()
		if !ok {
			if name = "key"; len(a.keys) > 1 {
				name = fmt.Sprint("key", i)
			}
		}
		a.keyNames = append(a.keyNames, name)
	}
}

func newItem(component string, g Aggregate, env expr.Env) (it item, err error) {
	it = item{name: g.Name, op: g.Op, ints: g.Op == "count"}
	if g.Of != "" {
		of := env
		if g.Op == "sum" {
			of.Want = stream.Decimal
		}
		if it.of, err = compileIn(component, g.Name+".of", g.Of, of); err != nil {
			return it, err
		}
		it.ints = it.ints || g.Op == "sum" && it.of.Type().Kind == stream.Int
	}
	if g.Where != "" {
		env.Want = stream.Bool
		it.where, err = compileIn(component, g.Name+".where", g.Where, env)
	}
	return it, err
}

// typ is the type of a result.
func (it *item) typ() stream.Type {
	switch {
	case it.ints:
		return stream.Type{Kind: stream.Int}
	case it.op == "sum":
		return stream.Type{Kind: stream.Decimal}
	}
	return it.of.Type()
}

// describe sets the schema of the output and the text between its values.
func (a *aggregate) describe() {
	var fields []stream.Field
	alias := map[string]string{}
	for i, prog := range a.keys {
		fields = append(fields, stream.Field{Name: a.keyNames[i], Type: prog.Type()})
		alias[fmt.Sprintf("key[%d]", i)] = a.keyNames[i]
	}
	if len(a.keys) == 1 {
		alias = map[string]string{"key": a.keyNames[0]}
	}
	for i := range a.items {
		fields = append(fields, stream.Field{Name: a.items[i].name, Type: a.items[i].typ()})
	}
	open := "{"
	for _, f := range fields {
		a.node.names = append(a.node.names, f.Name)
		a.heads = append(a.heads, open+string(jsondoc.AppendString(nil, f.Name))+":")
		open = ","
	}
	a.node.out = &stream.Schema{Format: stream.JSON, Type: object(fields...), Alias: alias}
}
