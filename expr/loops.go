package expr

import (
	"slices"

	"github.com/expr-lang/expr/ast"

	"etl/stream"
)

// looping is a loop at work: a list, and a predicate that is evaluated with each
// element as #.
type looping struct {
	*loop
	arguments
	list []Value
	body func(*Evaluator) Value
	init func(*Evaluator) Value // of reduce: the start; of sortBy: the order
}

// eval evaluates the predicate for element i.
func (l looping) eval(i int) Value {
	l.ev.step(l.at)
	l.ev.vars[l.elem], l.ev.vars[l.index] = l.list[i], IntValue(int64(i))
	return l.body(l.ev)
}

// is evaluates the predicate as a condition.
func (l looping) is(i int) bool { return truth(l.at, l.eval(i), l.name) }

// find returns the first element, from the end if back, that fits; -1 for none.
func (l looping) find(back bool) int {
	for i := range l.list {
		if back {
			i = len(l.list) - 1 - i
		}
		if l.is(i) {
			return i
		}
	}
	return -1
}

func (l looping) count() (n int) {
	for i := range l.list {
		if l.is(i) {
			n++
		}
	}
	return n
}

// loopFunction is a function of the language with a predicate.
type loopFunction struct {
	// want is the kind the predicate gives, Any for no demand.
	want   stream.Kind
	result func(list, body stream.Type) stream.Type
	run    func(l looping) Value
}

func always(k stream.Kind) func(_, _ stream.Type) stream.Type {
	return func(_, _ stream.Type) stream.Type { return of(k) }
}

var loopFunctions map[string]loopFunction

func init() {
	element := func(list, _ stream.Type) stream.Type { return elem(list) }
	same := func(list, _ stream.Type) stream.Type { return list }
	loopFunctions = map[string]loopFunction{
		"all":           {stream.Bool, always(stream.Bool), func(l looping) Value { return BoolValue(l.count() == len(l.list)) }},
		"any":           {stream.Bool, always(stream.Bool), func(l looping) Value { return BoolValue(l.find(false) >= 0) }},
		"none":          {stream.Bool, always(stream.Bool), func(l looping) Value { return BoolValue(l.find(false) < 0) }},
		"one":           {stream.Bool, always(stream.Bool), func(l looping) Value { return BoolValue(l.count() == 1) }},
		"count":         {stream.Bool, always(stream.Int), func(l looping) Value { return IntValue(int64(l.count())) }},
		"findIndex":     {stream.Bool, always(stream.Int), func(l looping) Value { return foundAt(l.find(false)) }},
		"findLastIndex": {stream.Bool, always(stream.Int), func(l looping) Value { return foundAt(l.find(true)) }},
		"find":          {stream.Bool, element, func(l looping) Value { return l.item(l.find(false)) }},
		"findLast":      {stream.Bool, element, func(l looping) Value { return l.item(l.find(true)) }},
		"filter":        {stream.Bool, same, filterItems},
		"map":           {stream.Any, func(_, body stream.Type) stream.Type { return listOf(body) }, mapItems},
		"sum":           {stream.Decimal, func(_, body stream.Type) stream.Type { return numeric(body, body) }, sumOf},
		"reduce":        {stream.Any, always(stream.Any), reduce},
		"sortBy":        {stream.Any, same, sortBy},
	}
}

// item returns element i, null for -1.
func (l looping) item(i int) Value {
	if i < 0 {
		return null
	}
	return l.list[i]
}

// foundAt returns an index, null for -1.
func foundAt(i int) Value {
	if i < 0 {
		return null
	}
	return IntValue(int64(i))
}

// loop compiles a call with a predicate.
func (c *compiler) loop(n *ast.BuiltinNode, f loopFunction) term {
	list := c.term(n.Arguments[0])
	c.need(n.Arguments[0], list, n.Name, stream.List)
	l := &loop{elem: c.slot(), index: c.slot(), acc: -1, typ: elem(list.typ), accTyp: of(stream.Any)}
	if n.Name == "reduce" {
		l.acc = c.slot()
	}
	body := c.predicate(n, f, l)
	init := c.extra(n)
	run, pos := list.value(), at(n)
	return term{typ: f.result(list.typ, body.typ), run: func(ev *Evaluator) Value {
		a := arguments{ev: ev, at: pos, name: n.Name}
		return f.run(looping{l, a, ev.items(pos, run(ev), n.Name), body.value(), init})
	}}
}

// predicate compiles the second argument; without one, count and sum take the
// elements as they are.
func (c *compiler) predicate(n *ast.BuiltinNode, f loopFunction, l *loop) term {
	if len(n.Arguments) < 2 {
		return variableTerm(l.elem, l.typ)
	}
	c.loops = append(c.loops, *l)
	body := c.term(n.Arguments[1].(*ast.PredicateNode).Node)
	c.loops = c.loops[:len(c.loops)-1]
	if f.want != stream.Any {
		c.need(n.Arguments[1], body, n.Name, f.want)
	}
	body.run = body.value()
	return body
}

// extra compiles the third argument.
func (c *compiler) extra(n *ast.BuiltinNode) func(*Evaluator) Value {
	if len(n.Arguments) < 3 {
		return nil
	}
	return c.term(n.Arguments[2]).value()
}

// pointer compiles #, #index and #acc, and the base of .name.
func (c *compiler) pointer(n *ast.PointerNode) term {
	if len(c.loops) == 0 {
		c.errorf(at(n), CodeUnknownName, "# means an element only inside a function such as filter")
	}
	l := c.loops[len(c.loops)-1]
	switch {
	case n.Name == "":
		return variableTerm(l.elem, l.typ)
	case n.Name == "index":
		return variableTerm(l.index, of(stream.Int))
	case n.Name == "acc" && l.acc >= 0:
		return variableTerm(l.acc, l.accTyp)
	}
	c.errorf(at(n), CodeUnknownName, "unknown name #%s", n.Name)
	return term{}
}

func filterItems(l looping) Value {
	items := l.ev.list(l.at, len(l.list))[:0]
	for i, v := range l.list {
		if l.is(i) {
			items = append(items, v)
		}
	}
	return listValue(items)
}

func mapItems(l looping) Value {
	items := l.ev.list(l.at, len(l.list))
	for i := range items {
		items[i] = l.eval(i)
	}
	return listValue(items)
}

func sumOf(l looping) Value {
	items, _ := mapItems(l).list()
	return NumberValue(total(l.arguments, items))
}

// reduce starts with the third argument, or else with the first element.
func reduce(l looping) Value {
	from := 0
	var acc Value
	switch {
	case l.init != nil:
		acc = l.init(l.ev)
	case len(l.list) == 0:
		l.fail(CodeInvalid, "empty list and no initial value")
	default:
		from, acc = 1, l.list[0]
	}
	for i := from; i < len(l.list); i++ {
		l.ev.vars[l.acc] = acc
		acc = l.eval(i)
	}
	return acc
}

// sortBy orders elements by what the predicate gives, equal ones as they came.
func sortBy(l looping) Value {
	type pair struct{ by, v Value }
	pairs := make([]pair, len(l.list))
	for i, v := range l.list {
		pairs[i] = pair{l.eval(i), v}
	}
	if l.init != nil {
		l.vals = []Value{l.init(l.ev)}
	}
	sign := descending(l.arguments, 0)
	slices.SortStableFunc(pairs, func(x, y pair) int { return sign * ordered(l.arguments, x.by, y.by) })
	items := l.ev.list(l.at, len(pairs))
	for i := range pairs {
		items[i] = pairs[i].v
	}
	return listValue(items)
}
