package expr

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"

	"etl/stream"
)

// arguments are the evaluated arguments of one call.
type arguments struct {
	ev   *Evaluator
	at   int
	name string
	vals []Value
}

func (a arguments) len() int { return len(a.vals) }

// text returns argument i, which must be a string.
func (a arguments) text(i int) string { return text(a.at, a.vals[i], a.name) }

// int returns argument i, which must be a whole number.
func (a arguments) int(i int) int { return int(integer(a.at, a.vals[i], a.name)) }

// items returns the elements of argument i, which must be a list.
func (a arguments) items(i int) []Value { return a.ev.items(a.at, a.vals[i], a.name) }

// made returns new text, counted against the limit.
func (a arguments) made(s string) Value {
	a.ev.grow(a.at, len(s))
	return StringValue(s)
}

func (a arguments) fail(code, format string, args ...any) {
	fail(a.at, code, "%s: %s", a.name, fmt.Sprintf(format, args...))
}

// function is a function of the language without a predicate.
type function struct {
	min, max int // arguments; max -1: any number
	// args are the kinds of the arguments; the last stands for all that follow,
	// Any for no demand.
	args   []stream.Kind
	result func(args []stream.Type) stream.Type
	call   func(a arguments) Value
}

// functions is filled by the files that define them.
var functions = map[string]function{}

func define(more map[string]function) {
	for name, f := range more {
		functions[name] = f
	}
}

// gives is the result type of functions that always give one kind.
func gives(k stream.Kind) func([]stream.Type) stream.Type {
	return func([]stream.Type) stream.Type { return of(k) }
}

// refused says why a function of the library is not available.
var refused = map[string]string{
	"now":      "a replay must give the same result: use meta.timestamp",
	"date":     "dates depend on the time zone data of the machine",
	"duration": "there is no type for durations: compute in milliseconds",
	"timezone": "dates depend on the time zone data of the machine",
}

// call compiles name(arguments) where name is no function of the library.
func (c *compiler) call(n *ast.CallNode) term {
	id, ok := n.Callee.(*ast.IdentifierNode)
	if !ok {
		c.errorf(at(n.Callee), CodeUnknownFunction, "values have no methods: write f(x) instead of x.f()")
	}
	c.unknownFunction(n, id.Value)
	return term{}
}

func (c *compiler) unknownFunction(n ast.Node, name string) {
	if why, ok := refused[name]; ok {
		c.errorf(at(n), CodeUnknownFunction, "%s() is not available: %s", name, why)
	}
	var known []string
	for f := range functions {
		known = append(known, f)
	}
	for f := range loopFunctions {
		known = append(known, f)
	}
	c.errorNear(at(n), CodeUnknownFunction, name, known, "unknown function %q", name)
}

// builtin compiles a call of a function of the library.
func (c *compiler) builtin(n *ast.BuiltinNode) term {
	if f, ok := loopFunctions[n.Name]; ok && (len(n.Arguments) > 1 || n.Name != "sum") {
		return c.loop(n, f)
	}
	f, ok := functions[n.Name]
	if !ok {
		c.unknownFunction(n, n.Name)
	}
	parts := c.terms(n.Arguments)
	c.checkArguments(n, f, parts)
	types := make([]stream.Type, len(parts))
	runs := make([]func(*Evaluator) Value, len(parts))
	for i, p := range parts {
		types[i], runs[i] = p.typ, p.value()
	}
	return c.fold(n, term{typ: f.result(types), run: invoke(at(n), n.Name, f, runs)}, parts...)
}

func (c *compiler) checkArguments(n *ast.BuiltinNode, f function, parts []term) {
	switch {
	case len(parts) < f.min:
		c.errorf(at(n), CodeArguments, "%s wants at least %d arguments, not %d", n.Name, f.min, len(parts))
	case f.max >= 0 && len(parts) > f.max:
		c.errorf(at(n), CodeArguments, "%s wants at most %d arguments, not %d", n.Name, f.max, len(parts))
	}
	for i, p := range parts {
		if k := f.args[min(i, len(f.args)-1)]; k != stream.Any {
			c.need(n.Arguments[i], p, n.Name, k)
		}
	}
}

// invoke evaluates arguments onto the evaluator's list memory, without allocating.
func invoke(at int, name string, f function, runs []func(*Evaluator) Value) func(*Evaluator) Value {
	return func(ev *Evaluator) Value {
		vals := ev.list(at, len(runs))
		for i, run := range runs {
			vals[i] = run(ev)
		}
		return f.call(arguments{ev: ev, at: at, name: name, vals: vals})
	}
}

func init() {
	define(map[string]function{
		"trim":       {1, 2, texts, gives(stream.String), trim},
		"trimPrefix": {2, 2, texts, gives(stream.String), func(a arguments) Value { return StringValue(strings.TrimPrefix(a.text(0), a.text(1))) }},
		"trimSuffix": {2, 2, texts, gives(stream.String), func(a arguments) Value { return StringValue(strings.TrimSuffix(a.text(0), a.text(1))) }},
		"upper":      {1, 1, texts, gives(stream.String), func(a arguments) Value { return changeCase(a, 'a', 'z', strings.ToUpper) }},
		"lower":      {1, 1, texts, gives(stream.String), func(a arguments) Value { return changeCase(a, 'A', 'Z', strings.ToLower) }},
		"hasPrefix":  {2, 2, texts, gives(stream.Bool), func(a arguments) Value { return BoolValue(strings.HasPrefix(a.text(0), a.text(1))) }},
		"hasSuffix":  {2, 2, texts, gives(stream.Bool), func(a arguments) Value { return BoolValue(strings.HasSuffix(a.text(0), a.text(1))) }},
	})
}

var texts = []stream.Kind{stream.String}

func trim(a arguments) Value {
	if a.len() == 2 {
		return StringValue(strings.Trim(a.text(0), a.text(1)))
	}
	return StringValue(strings.TrimSpace(a.text(0)))
}

// changeCase turns the letters from..to of ASCII text around in place, and leaves
// any other text to the library.
func changeCase(a arguments, from, to byte, other func(string) string) Value {
	s := a.text(0)
	return StringValue(a.ev.string(a.at, func(dst []byte) []byte {
		for i := range len(s) {
			c := s[i]
			if c >= utf8.RuneSelf {
				return append(dst[:len(dst)-i], other(s)...)
			}
			if from <= c && c <= to {
				c ^= 'a' ^ 'A'
			}
			dst = append(dst, c)
		}
		return dst
	}))
}
