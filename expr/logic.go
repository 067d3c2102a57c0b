package expr

import (
	"regexp"
	"strings"

	"github.com/expr-lang/expr/ast"

	"etl/stream"
)

// condition returns a term as a test; any other kind than bool is a failure.
func condition(at int, t term, op string) func(*Evaluator) bool {
	if t.test != nil {
		return t.test
	}
	run := t.run
	return func(ev *Evaluator) bool { return truth(at, run(ev), op) }
}

func truth(at int, v Value, op string) bool {
	if v.kind != stream.Bool {
		wrongKind(at, v, op, "a bool")
	}
	return v.num == 1
}

func (c *compiler) logic(n *ast.BinaryNode, l, r term) term {
	op := map[string]string{"&&": "and", "||": "or"}[n.Operator]
	if op == "" {
		op = n.Operator
	}
	c.need(n, l, op, stream.Bool)
	c.need(n, r, op, stream.Bool)
	a, b := condition(at(n), l, op), condition(at(n), r, op)
	test := func(ev *Evaluator) bool { return a(ev) && b(ev) }
	if op == "or" {
		test = func(ev *Evaluator) bool { return a(ev) || b(ev) }
	}
	return term{typ: of(stream.Bool), test: test}
}

func (c *compiler) conditional(n *ast.ConditionalNode) term {
	cond, yes, no := c.term(n.Cond), c.term(n.Exp1), c.term(n.Exp2)
	c.need(n, cond, "?:", stream.Bool)
	test, a, b := condition(at(n), cond, "?:"), yes.value(), no.value()
	return c.fold(n, term{typ: join(yes.typ, no.typ), run: func(ev *Evaluator) Value {
		if test(ev) {
			return a(ev)
		}
		return b(ev)
	}}, cond, yes, no)
}

var textTests = map[string]func(s, part string) bool{
	"contains": strings.Contains, "startsWith": strings.HasPrefix, "endsWith": strings.HasSuffix,
}

func (c *compiler) textTest(n *ast.BinaryNode, l, r term) term {
	c.need(n, l, n.Operator, stream.String)
	c.need(n, r, n.Operator, stream.String)
	a, b, pos, op, f := l.value(), r.value(), at(n), n.Operator, textTests[n.Operator]
	return term{typ: of(stream.Bool), test: func(ev *Evaluator) bool {
		s := text(pos, a(ev), op)
		return f(s, text(pos, b(ev), op))
	}}
}

// matches wants a constant pattern, which is compiled here: Go's regexp is linear
// in the text, and the size of the pattern is bounded by that of the source.
func (c *compiler) matches(n *ast.BinaryNode, l, r term) term {
	c.need(n, l, "matches", stream.String)
	if !r.lit {
		c.errorf(at(n.Right), CodeUnsupported, "matches wants a constant pattern")
	}
	v, _ := c.constant(r)
	if v.kind != stream.String {
		c.errorf(at(n.Right), CodeType, "matches wants a string pattern, not %s", v.kind)
	}
	re, err := regexp.Compile(v.text())
	if err != nil {
		c.errorf(at(n.Right), CodeConstant, "%v", err)
	}
	run, pos := l.value(), at(n)
	return term{typ: of(stream.Bool), test: func(ev *Evaluator) bool {
		return re.MatchString(text(pos, run(ev), "matches"))
	}}
}
