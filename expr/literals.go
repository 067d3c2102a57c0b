package expr

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"

	"etl/expr/decimal"
	"etl/stream"
)

// fraction is a number as the lexer takes it.
var fraction = regexp.MustCompile(`^[0-9_]*(\.[0-9_]*)?([eE][+-]?[0-9_]+)?`)

// numberLiteral reads a number from the source itself: the parser has already
// made a float64 of a fraction.
func (c *compiler) numberLiteral(n ast.Node) term {
	if i, ok := n.(*ast.IntegerNode); ok {
		return literal(IntValue(int64(i.Value)))
	}
	text := strings.ReplaceAll(fraction.FindString(string([]rune(c.src)[at(n):])), "_", "")
	if strings.HasPrefix(text, ".") {
		text = "0" + text
	}
	x, ok := decimal.Parse(strings.TrimSuffix(text, "."))
	if !ok {
		c.errorf(at(n), CodeSyntax, "%q is not a number", text)
	}
	return literal(NumberValue(x))
}

func (c *compiler) array(n *ast.ArrayNode) term {
	parts := c.terms(n.Nodes)
	t := of(stream.Any)
	runs := make([]func(*Evaluator) Value, len(parts))
	for i, p := range parts {
		if runs[i] = p.value(); i == 0 {
			t = p.typ
		} else {
			t = join(t, p.typ)
		}
	}
	pos := at(n)
	return c.fold(n, term{typ: listOf(t), run: func(ev *Evaluator) Value {
		items := ev.list(pos, len(runs))
		for i, run := range runs {
			items[i] = run(ev)
		}
		return listValue(items)
	}}, parts...)
}

func (c *compiler) terms(nodes []ast.Node) []term {
	parts := make([]term, len(nodes))
	for i, n := range nodes {
		parts[i] = c.term(n)
	}
	return parts
}

// object compiles {name: value, ...}. Names are constants.
func (c *compiler) object(n *ast.MapNode) term {
	t := stream.Type{Kind: stream.Object}
	var names []string
	var parts []term
	for _, p := range n.Pairs {
		pair := p.(*ast.PairNode)
		key, ok := pair.Key.(*ast.StringNode)
		if !ok {
			c.errorf(at(pair.Key), CodeUnsupported, "the names of an object must be constants")
		}
		if _, twice := t.Field(key.Value); twice {
			c.errorf(at(key), CodeConstant, "name %q occurs twice", key.Value)
		}
		v := c.term(pair.Value)
		names, parts = append(names, key.Value), append(parts, v)
		t.Fields = append(t.Fields, stream.Field{Name: key.Value, Type: v.typ})
	}
	runs := make([]func(*Evaluator) Value, len(parts))
	for i, p := range parts {
		runs[i] = p.value()
	}
	pos := at(n)
	return term{typ: t, run: func(ev *Evaluator) Value {
		o := &object{names: names, values: ev.list(pos, len(runs))}
		for i, run := range runs {
			o.values[i] = run(ev)
		}
		return objectValue(o)
	}}
}

// slice compiles list[from:to] and string[from:to], the latter in characters.
// Negative ends count from the end; ends outside are cut to what there is.
func (c *compiler) slice(n *ast.SliceNode) term {
	base := c.term(n.Node)
	c.need(n, base, "[:]", stream.List, stream.String)
	from, to := c.bound(n.From), c.bound(n.To)
	run, pos := base.value(), at(n)
	return term{typ: base.typ, run: func(ev *Evaluator) Value {
		v := run(ev)
		if v.kind == stream.String {
			return StringValue(sliceText(v.text(), from(ev, 0), to(ev, utf8.RuneCountInString(v.text()))))
		}
		items := ev.items(pos, v, "[:]")
		a, b := cut(from(ev, 0), to(ev, len(items)), len(items))
		return listValue(items[a:b])
	}}
}

// bound compiles one end of a slice; its function gives the default when there is
// no such end.
func (c *compiler) bound(n ast.Node) func(ev *Evaluator, missing int) int {
	if n == nil {
		return func(_ *Evaluator, missing int) int { return missing }
	}
	t := c.term(n)
	c.need(n, t, "[:]", stream.Int)
	run, pos := t.value(), at(n)
	return func(ev *Evaluator, _ int) int { return int(integer(pos, run(ev), "[:]")) }
}

func cut(a, b, n int) (int, int) {
	if a < 0 {
		a += n
	}
	if b < 0 {
		b += n
	}
	b = max(min(b, n), 0)
	return max(min(a, b), 0), b
}

func sliceText(s string, a, b int) string {
	a, b = cut(a, b, utf8.RuneCountInString(s))
	from := runeOffset(s, a)
	return s[from : from+runeOffset(s[from:], b-a)]
}

// runeOffset returns the position of character n in s.
func runeOffset(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}
