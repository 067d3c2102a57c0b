package expr

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"

	"etl/stream"
)

// identifier compiles a name that stands alone.
func (c *compiler) identifier(n *ast.IdentifierNode) term {
	for i := len(c.lets) - 1; i >= 0; i-- {
		if v := c.lets[i]; v.name == n.Value {
			return variableTerm(v.slot, v.typ)
		}
	}
	switch n.Value {
	case "this":
		return c.thisTerm(n)
	case "meta":
		c.errorf(at(n), CodeType, "meta has no value of its own: use meta.topic, partition, offset, timestamp, key or headers")
	}
	for name, t := range c.scope() {
		if n.Value == nameWords[name] {
			return pathTerm(&path{base: name}, *t, "")
		}
	}
	if name := foreign[n.Value]; name != "" {
		line, column := place(c.src, at(n))
		panic(&Error{Code: CodeUnknownName, Line: line, Column: column, Message: fmt.Sprintf("unknown name %q", n.Value), Near: []string{name}})
	}
	c.errorNear(at(n), CodeUnknownName, n.Value, c.names(), "unknown name %q: fields of the record are written this.%s", n.Value, n.Value)
	return term{}
}

// scope returns the bound names that may be used, with their types.
func (c *compiler) scope() map[Name]*stream.Type {
	s := map[Name]*stream.Type{}
	for name, t := range map[Name]*stream.Type{It: c.env.It, Table: c.env.Table, Window: c.env.Window} {
		if t != nil {
			s[name] = t
		}
	}
	return s
}

// names returns all names that may stand alone.
func (c *compiler) names() []string {
	all := []string{"this", "meta"}
	for name := range c.scope() {
		all = append(all, nameWords[name])
	}
	for _, v := range c.lets {
		all = append(all, v.name)
	}
	return all
}

func variableTerm(slot int, t stream.Type) term {
	return term{typ: t, run: func(ev *Evaluator) Value { return ev.vars[slot] }}
}

func pathTerm(p *path, t stream.Type, name string) term {
	return term{typ: t, path: p, name: name, run: p.value}
}

// thisTerm compiles the whole value of the record.
func (c *compiler) thisTerm(n ast.Node) term {
	switch c.env.This.Format {
	case stream.JSON:
		return pathTerm(&path{base: this}, c.env.This.Type, "")
	case stream.Text:
		value := textTerm(at(n))
		return term{typ: textType, run: func(ev *Evaluator) Value {
			return objectValue(&object{[]string{"value"}, []Value{value.run(ev)}})
		}}
	}
	c.errorf(at(n), CodeUnknownName, "the records are raw bytes: only meta is known of them")
	return term{}
}

// textType is the type of this for text records.
var textType = stream.Type{Kind: stream.Object, Fields: []stream.Field{{Name: "value", Type: of(stream.String)}}}

// textTerm compiles this.value of a text record.
func textTerm(at int) term {
	return term{typ: of(stream.String), name: "value", run: func(ev *Evaluator) Value {
		return bytesValue(at, ev.rec.Value, CodeTextUTF8, "value")
	}}
}

// bytesValue returns bytes of a record as text.
func bytesValue(at int, b []byte, code, what string) Value {
	if b == nil {
		return null
	}
	if !utf8.Valid(b) {
		fail(at, code, "%s is not valid UTF-8", what)
	}
	return StringValue(view(b))
}

// memberOf compiles base.name, base["name"] and base[i].
func (c *compiler) memberOf(n *ast.MemberNode) term {
	if t, ok := c.known(n); ok {
		return t
	}
	base, key := c.term(n.Node), c.term(n.Property)
	if !key.lit {
		return c.dynamicMember(n, base, key)
	}
	s, ok := c.constantStep(n, key)
	if !ok {
		return literal(null)
	}
	t := c.stepType(n, base.typ, s)
	if base.path != nil {
		steps := append(append([]step(nil), base.path.steps...), s)
		return pathTerm(&path{base: base.path.base, steps: steps}, t, s.name)
	}
	run := base.value()
	made := term{typ: t, run: func(ev *Evaluator) Value { return ev.member(run(ev), &s) }}
	return c.fold(n, made, base)
}

func (c *compiler) constantStep(n *ast.MemberNode, key term) (step, bool) {
	v, fault := c.constant(key)
	if fault == nil && v.kind != stream.String && v.kind != stream.Int {
		c.errorf(at(n.Property), CodeType, "a member is named by a string or an int, not %s", v.kind)
	}
	return dynamic(0, v)
}

func (c *compiler) dynamicMember(n *ast.MemberNode, base, key term) term {
	if !may(base.typ, stream.List, stream.Object) {
		c.errorf(at(n), CodeType, "%s has no members", base.typ.Kind)
	}
	if !may(key.typ, stream.String, stream.Int) || key.typ.Kind == stream.Decimal {
		c.errorf(at(n.Property), CodeType, "a member is named by a string or an int, not %s", key.typ.Kind)
	}
	run, keyRun, pos := base.value(), key.value(), at(n)
	return term{typ: elem(base.typ), run: func(ev *Evaluator) Value {
		v := run(ev)
		if s, ok := dynamic(pos, keyRun(ev)); ok {
			return ev.member(v, &s)
		}
		return null
	}}
}

// known compiles members of meta and of text records, and aliases: names that are
// no paths into a document.
func (c *compiler) known(n *ast.MemberNode) (term, bool) {
	if root, field, ok := rooted(n.Node); ok && root == "meta" && field == "headers" {
		return c.header(n), true
	}
	root, field, ok := rooted(n)
	switch {
	case ok && root == "meta":
		return c.meta(n, field), true
	case ok && root == "this":
		return c.thisField(n, field)
	}
	if i, ok := n.Property.(*ast.IntegerNode); ok {
		if root, field, ok := rooted(n.Node); ok && root == "this" {
			return c.alias(n, indexed(field, i.Value))
		}
	}
	return term{}, false
}

// rooted takes apart root.field.
func rooted(n ast.Node) (root, field string, ok bool) {
	if c, isChain := n.(*ast.ChainNode); isChain {
		n = c.Node
	}
	m, isMember := n.(*ast.MemberNode)
	if !isMember {
		return "", "", false
	}
	id, isID := m.Node.(*ast.IdentifierNode)
	name, isName := m.Property.(*ast.StringNode)
	if !isID || !isName {
		return "", "", false
	}
	return id.Value, name.Value, true
}

func (c *compiler) thisField(n *ast.MemberNode, field string) (term, bool) {
	if c.env.This.Format != stream.Text {
		return c.alias(n, field)
	}
	if field != "value" {
		c.errorNear(at(n), CodeUnknownField, field, []string{"value"}, "text records have only this.value")
	}
	return textTerm(at(n)), true
}

// alias compiles a name of the schema's alias table, unless a field has it.
func (c *compiler) alias(n *ast.MemberNode, name string) (term, bool) {
	target, ok := c.env.This.Alias[name]
	if !ok || c.env.This.Format != stream.JSON {
		return term{}, false
	}
	if _, real := c.env.This.Type.Field(name); real {
		return term{}, false
	}
	s := step{name: target, named: true}
	return pathTerm(&path{base: this, steps: []step{s}}, c.stepType(n, c.env.This.Type, s), target), true
}

// stepType returns the type behind a step, and refuses steps the type rules out.
func (c *compiler) stepType(n *ast.MemberNode, t stream.Type, s step) stream.Type {
	switch {
	case t.Kind == stream.Any || t.Kind == stream.Null:
		return of(stream.Any)
	case s.named && t.Kind == stream.Object:
		f, ok := t.Field(s.name)
		if !ok && !t.Open {
			known := c.fields(t)
			c.errorNear(at(n), CodeUnknownField, s.name, known, "no field %q, there are %s", s.name, strings.Join(known, ", "))
		}
		return f
	case !s.named && t.Kind == stream.List:
		return elem(t)
	case s.named:
		c.errorf(at(n), CodeType, "%s has no field %q", t.Kind, s.name)
	default:
		c.errorf(at(n), CodeType, "%s has no element [%d]", t.Kind, s.index)
	}
	return of(stream.Any)
}

// fields returns the names that may follow a value of type t.
func (c *compiler) fields(t stream.Type) []string {
	var all []string
	for _, f := range t.Fields {
		all = append(all, f.Name)
	}
	return append(all, slices.Sorted(maps.Keys(c.env.This.Alias))...)
}

// let compiles let name = value; body.
func (c *compiler) let(n *ast.VariableDeclaratorNode) term {
	for _, name := range append(c.names(), "table", "window", "it") {
		if n.Name == name {
			c.errorf(at(n), CodeUnknownName, "%q is already a name here", name)
		}
	}
	value := c.term(n.Value)
	slot := c.slot()
	c.lets = append(c.lets, variable{n.Name, slot, value.typ})
	body := c.term(n.Expr)
	c.lets = c.lets[:len(c.lets)-1]
	run, bodyRun := value.value(), body.value()
	return term{typ: body.typ, run: func(ev *Evaluator) Value {
		ev.vars[slot] = run(ev)
		return bodyRun(ev)
	}}
}
