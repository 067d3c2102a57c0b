package expr

import (
	"github.com/expr-lang/expr/ast"

	"etl/expr/decimal"
	"etl/stream"
)

func (c *compiler) unary(n *ast.UnaryNode) term {
	t := c.term(n.Node)
	pos := at(n)
	switch n.Operator {
	case "not", "!":
		c.need(n, t, "not", stream.Bool)
		test := condition(pos, t, "not")
		return c.fold(n, term{typ: of(stream.Bool), test: func(ev *Evaluator) bool { return !test(ev) }}, t)
	case "-":
		c.need(n, t, "-", stream.Decimal)
		run := t.value()
		return c.fold(n, term{typ: numeric(t.typ, t.typ), run: func(ev *Evaluator) Value {
			return NumberValue(decimal.Neg(operand(pos, run(ev), "-")))
		}}, t)
	}
	c.need(n, t, "+", stream.Decimal)
	run := t.value()
	return c.fold(n, term{typ: t.typ, run: func(ev *Evaluator) Value {
		return NumberValue(operand(pos, run(ev), "+"))
	}}, t)
}

// need refuses an operand whose type rules out the kind an operator wants.
func (c *compiler) need(n ast.Node, t term, op string, kinds ...stream.Kind) {
	if may(t.typ, kinds...) {
		return
	}
	want := kinds[0].String()
	if kinds[0] == stream.Decimal {
		want = "number"
	}
	c.errorf(at(n), CodeType, "%s wants %s, not %s", op, want, t.typ.Kind)
}

func (c *compiler) binary(n *ast.BinaryNode) term {
	l, r := c.term(n.Left), c.term(n.Right)
	var t term
	switch n.Operator {
	case "and", "&&", "or", "||":
		t = c.logic(n, l, r)
	case "==", "!=":
		t = c.equality(n, l, r)
	case "<", "<=", ">", ">=":
		t = c.order(n, l, r)
	case "in":
		t = c.membership(n, l, r)
	case "contains", "startsWith", "endsWith":
		t = c.textTest(n, l, r)
	case "matches":
		t = c.matches(n, l, r)
	case "+":
		t = c.plus(n, l, r)
	case "-", "*", "/", "%", "**", "^":
		t = c.arithmetic(n, l, r)
	case "..":
		t = c.span(n, l, r)
	case "??":
		t = c.coalesce(l, r)
	default:
		c.errorf(at(n), CodeUnsupported, "operator %q is not supported", n.Operator)
	}
	return c.fold(n, t, l, r)
}

// operand returns the number an operator works on.
func operand(at int, v Value, op string) decimal.Number {
	if v.kind != stream.Int && v.kind != stream.Decimal {
		wrongKind(at, v, op, "a number")
	}
	return v.number()
}

// text returns the string an operator works on.
func text(at int, v Value, op string) string {
	if v.kind != stream.String {
		wrongKind(at, v, op, "a string")
	}
	return v.text()
}

type operation func(x, y decimal.Number) (decimal.Number, error)

var operations = map[string]operation{
	"+": decimal.Add, "-": decimal.Sub, "*": decimal.Mul, "/": decimal.Quo,
	"%": decimal.Rem, "**": decimal.Pow, "^": decimal.Pow,
}

func (c *compiler) arithmetic(n *ast.BinaryNode, l, r term) term {
	op := n.Operator
	c.need(n, l, op, stream.Decimal)
	c.need(n, r, op, stream.Decimal)
	if op == "%" && (l.typ.Kind == stream.Decimal || r.typ.Kind == stream.Decimal) {
		c.errorf(at(n), CodeType, "%% wants int, not decimal")
	}
	t := numeric(l.typ, r.typ)
	switch op {
	case "/":
		t = of(stream.Decimal)
	case "%":
		t = of(stream.Int)
	}
	return term{typ: t, run: compute(at(n), operations[op], op, l.value(), r.value())}
}

func compute(at int, f operation, op string, l, r func(*Evaluator) Value) func(*Evaluator) Value {
	return func(ev *Evaluator) Value {
		x := operand(at, l(ev), op)
		n, err := f(x, operand(at, r(ev), op))
		failNumber(at, err)
		return NumberValue(n)
	}
}

// plus adds numbers and joins strings.
func (c *compiler) plus(n *ast.BinaryNode, l, r term) term {
	strings := l.typ.Kind == stream.String || r.typ.Kind == stream.String
	numbers := isNumber(l.typ.Kind) || isNumber(r.typ.Kind)
	switch {
	case strings && may(l.typ, stream.String) && may(r.typ, stream.String):
		return term{typ: of(stream.String), run: concat(at(n), l.value(), r.value())}
	case numbers && may(l.typ, stream.Decimal) && may(r.typ, stream.Decimal):
		return term{typ: numeric(l.typ, r.typ), run: compute(at(n), decimal.Add, "+", l.value(), r.value())}
	case strings || numbers || l.typ.Kind != stream.Any || r.typ.Kind != stream.Any:
		c.errorf(at(n), CodeType, "+ wants two numbers or two strings, not %s and %s", l.typ.Kind, r.typ.Kind)
	}
	return term{run: eitherPlus(at(n), l.value(), r.value())}
}

func concat(at int, l, r func(*Evaluator) Value) func(*Evaluator) Value {
	return func(ev *Evaluator) Value {
		a := text(at, l(ev), "+")
		b := text(at, r(ev), "+")
		return ev.joined(at, a, b)
	}
}

func (ev *Evaluator) joined(at int, a, b string) Value {
	return StringValue(ev.string(at, func(dst []byte) []byte { return append(append(dst, a...), b...) }))
}

func eitherPlus(at int, l, r func(*Evaluator) Value) func(*Evaluator) Value {
	return func(ev *Evaluator) Value {
		a, b := l(ev), r(ev)
		if a.kind == stream.String {
			return ev.joined(at, a.text(), text(at, b, "+"))
		}
		n, err := decimal.Add(operand(at, a, "+"), operand(at, b, "+"))
		failNumber(at, err)
		return NumberValue(n)
	}
}

// span compiles from..to, both ends included.
func (c *compiler) span(n *ast.BinaryNode, l, r term) term {
	c.need(n, l, "..", stream.Int)
	c.need(n, r, "..", stream.Int)
	from, to, pos := l.value(), r.value(), at(n)
	return term{typ: listOf(of(stream.Int)), run: func(ev *Evaluator) Value {
		a, b := integer(pos, from(ev), ".."), integer(pos, to(ev), "..")
		if b < a {
			return listValue(nil)
		}
		if uint64(b-a) >= maxSteps {
			fail(pos, CodeLimit, "range of more than %d numbers", maxSteps)
		}
		items := ev.list(pos, int(b-a)+1)
		for i := range items {
			items[i] = IntValue(a + int64(i))
		}
		return listValue(items)
	}}
}

// integer returns the whole number an operator works on.
func integer(at int, v Value, op string) int64 {
	n, ok := operand(at, v, op).Int64()
	if !ok {
		wrongKind(at, v, op, "an int")
	}
	return n
}

func (c *compiler) coalesce(l, r term) term {
	first, second := l.value(), r.value()
	return term{typ: join(l.typ, r.typ), run: func(ev *Evaluator) Value {
		if v := first(ev); v.kind != stream.Null {
			return v
		}
		return second(ev)
	}}
}
