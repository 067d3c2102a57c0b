package expr

import (
	"strings"

	"github.com/expr-lang/expr/ast"

	"etl/expr/decimal"
	"etl/expr/jsondoc"
	"etl/stream"
)

// Compare orders two numbers or two strings: -1, 0 or 1. ok is false for other
// kinds.
func Compare(a, b Value) (order int, ok bool) {
	x, xn := a.Number()
	y, yn := b.Number()
	switch {
	case xn && yn:
		return decimal.Cmp(x, y), true
	case a.kind == stream.String && b.kind == stream.String:
		return strings.Compare(a.text(), b.text()), true
	}
	return 0, false
}

// equal reports whether two values are the same: numbers by value, lists element
// by element, objects regardless of the order of names.
func (ev *Evaluator) equal(a, b Value) bool {
	if order, ok := Compare(a, b); ok {
		return order == 0
	}
	if a.kind != b.kind {
		return false
	}
	switch a.kind {
	case stream.Bool:
		return a.num == b.num
	case stream.List:
		return ev.equalItems(ev.items(-1, a, "=="), ev.items(-1, b, "=="))
	case stream.Object:
		return ev.equalMembers(ev.members(-1, a), ev.members(-1, b))
	}
	return true // null
}

func (ev *Evaluator) equalItems(a, b []Value) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		ev.step(-1)
		if !ev.equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

func (ev *Evaluator) equalMembers(a, b *object) bool {
	if len(a.names) != len(b.names) {
		return false
	}
	for i, name := range a.names {
		ev.step(-1)
		v, ok := b.get(name)
		if !ok || !ev.equal(a.values[i], v) {
			return false
		}
	}
	return true
}

// members returns the members of an object, in order.
func (ev *Evaluator) members(at int, v Value) *object {
	if v.kind != stream.Object {
		wrongKind(at, v, "members", "an object")
	}
	if d, n, ok := v.doc(); ok {
		return ev.loadMembers(at, d, n)
	}
	return v.object()
}

func (ev *Evaluator) loadMembers(at int, d *jsondoc.Doc, n jsondoc.Node) *object {
	o := &object{values: ev.list(at, d.Len(n))}
	e, ok := d.First(n)
	for i := 0; ok; i++ {
		o.names = append(o.names, ev.loadText(d, d.Name(e)))
		o.values[i] = ev.load(d, e)
		e, ok = d.Next(n, e)
	}
	return o
}

func (c *compiler) equality(n *ast.BinaryNode, l, r term) term {
	if !comparable(l.typ, r.typ) {
		c.errorf(at(n), CodeType, "%s never equals %s", l.typ.Kind, r.typ.Kind)
	}
	test := c.equalTest(l, r)
	if n.Operator == "!=" {
		same := test
		test = func(ev *Evaluator) bool { return !same(ev) }
	}
	return term{typ: of(stream.Bool), test: test}
}

// equalTest has ways of its own for a plain path and a constant.
func (c *compiler) equalTest(l, r term) func(*Evaluator) bool {
	if l.lit {
		l, r = r, l
	}
	if r.lit {
		v, fault := c.constant(r)
		switch {
		case fault != nil:
		case l.path != nil && v.kind == stream.String:
			return l.path.isText(v.text())
		case v.kind == stream.Null:
			run := l.value()
			return func(ev *Evaluator) bool { return run(ev).kind == stream.Null }
		}
	}
	a, b := l.value(), r.value()
	return func(ev *Evaluator) bool { return ev.equal(a(ev), b(ev)) }
}

// isText tests whether a path leads to the string want, in place.
func (p *path) isText(want string) func(*Evaluator) bool {
	return func(ev *Evaluator) bool {
		if d, n, ok := p.locate(ev); ok && d.Kind(n) == jsondoc.String {
			if t, escaped := d.Text(n); !escaped {
				return string(t) == want
			}
		}
		v := p.value(ev)
		return v.kind == stream.String && v.text() == want
	}
}

func (c *compiler) order(n *ast.BinaryNode, l, r term) term {
	numbers := may(l.typ, stream.Decimal) && may(r.typ, stream.Decimal)
	texts := may(l.typ, stream.String) && may(r.typ, stream.String)
	if !numbers && !texts {
		c.errorf(at(n), CodeType, "%s wants two numbers or two strings, not %s and %s", n.Operator, l.typ.Kind, r.typ.Kind)
	}
	a, b, pos, op := l.value(), r.value(), at(n), n.Operator
	holds := map[string]func(int) bool{
		"<":  func(o int) bool { return o < 0 },
		"<=": func(o int) bool { return o <= 0 },
		">":  func(o int) bool { return o > 0 },
		">=": func(o int) bool { return o >= 0 },
	}[op]
	return term{typ: of(stream.Bool), test: func(ev *Evaluator) bool {
		x, y := a(ev), b(ev)
		o, ok := Compare(x, y)
		if !ok {
			unordered(pos, op, x, y)
		}
		return holds(o)
	}}
}

func unordered(at int, op string, a, b Value) {
	code := CodeType
	if a.kind == stream.Null || b.kind == stream.Null {
		code = CodeNull
	}
	fail(at, code, "%s and %s have no order (%s)", a.kind, b.kind, op)
}

// membership compiles x in list, and name in object.
func (c *compiler) membership(n *ast.BinaryNode, l, r term) term {
	if !may(r.typ, stream.List, stream.Object) {
		c.errorf(at(n), CodeType, "in wants a list or an object, not %s", r.typ.Kind)
	}
	if r.typ.Kind == stream.List && !comparable(l.typ, elem(r.typ)) {
		c.errorf(at(n), CodeType, "%s never occurs in a %s", l.typ.Kind, r.typ)
	}
	if words, ok := c.words(r); ok {
		return term{typ: of(stream.Bool), test: oneOf(l, words)}
	}
	a, b, pos := l.value(), r.value(), at(n)
	return term{typ: of(stream.Bool), test: func(ev *Evaluator) bool {
		x, set := a(ev), b(ev)
		if set.kind == stream.Object {
			_, ok := ev.members(pos, set).get(text(pos, x, "in"))
			return ok
		}
		for _, e := range ev.items(pos, set, "in") {
			ev.step(pos)
			if ev.equal(x, e) {
				return true
			}
		}
		return false
	}}
}

// words returns the elements of a constant list of strings.
func (c *compiler) words(r term) ([]string, bool) {
	if !r.lit {
		return nil, false
	}
	v, fault := c.constant(r)
	items, ok := v.list()
	if fault != nil || !ok {
		return nil, false
	}
	var words []string
	for _, e := range items {
		if e.kind != stream.String {
			return nil, false
		}
		words = append(words, e.text())
	}
	return words, true
}

// oneOf tests whether a term is one of a few words.
func oneOf(l term, words []string) func(*Evaluator) bool {
	set := make(map[string]bool, len(words))
	for _, w := range words {
		set[w] = true
	}
	run, p := l.value(), l.path
	return func(ev *Evaluator) bool {
		if p != nil {
			if d, n, ok := p.locate(ev); ok && d.Kind(n) == jsondoc.String {
				if t, escaped := d.Text(n); !escaped {
					return set[string(t)]
				}
			}
		}
		v := run(ev)
		return v.kind == stream.String && set[v.text()]
	}
}
