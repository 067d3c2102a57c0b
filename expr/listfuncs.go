package expr

import (
	"slices"
	"unicode/utf8"

	"etl/stream"
)

func init() {
	list := []stream.Kind{stream.List}
	any := []stream.Kind{stream.Any}
	same := func(t []stream.Type) stream.Type { return t[0] }
	first := func(t []stream.Type) stream.Type { return elem(t[0]) }
	names := func([]stream.Type) stream.Type { return listOf(of(stream.String)) }
	define(map[string]function{
		"len":     {1, 1, any, gives(stream.Int), length},
		"type":    {1, 1, any, gives(stream.String), func(a arguments) Value { return StringValue(a.vals[0].kind.String()) }},
		"first":   {1, 1, list, first, func(a arguments) Value { return a.ev.member(a.vals[0], &step{index: 0}) }},
		"last":    {1, 1, list, first, func(a arguments) Value { return a.ev.member(a.vals[0], &step{index: -1}) }},
		"get":     {2, 2, any, gives(stream.Any), get},
		"take":    {2, 2, []stream.Kind{stream.List, stream.Int}, same, take},
		"keys":    {1, 1, []stream.Kind{stream.Object}, names, keys},
		"values":  {1, 1, []stream.Kind{stream.Object}, gives(stream.List), func(a arguments) Value { return listValue(a.ev.members(a.at, a.vals[0]).values) }},
		"reverse": {1, 1, list, same, reverse},
		"uniq":    {1, 1, list, same, uniq},
		"concat":  {1, -1, list, concatType, concatLists},
		"flatten": {1, 1, list, gives(stream.List), flatten},
		"sort":    {1, 2, []stream.Kind{stream.List, stream.String}, same, sortItems},
	})
}

// length counts the characters of a string, elements of a list, members of an
// object.
func length(a arguments) Value {
	v := a.vals[0]
	switch v.kind {
	case stream.String:
		return IntValue(int64(utf8.RuneCountInString(v.text())))
	case stream.Object:
		return IntValue(int64(len(a.ev.members(a.at, v).names)))
	}
	return IntValue(int64(len(a.items(0))))
}

func get(a arguments) Value {
	s, ok := dynamic(a.at, a.vals[1])
	if !ok {
		return null
	}
	return a.ev.member(a.vals[0], &s)
}

func take(a arguments) Value {
	items, n := a.items(0), a.int(1)
	if n < 0 {
		a.fail(CodeInvalid, "count below 0")
	}
	return listValue(items[:min(n, len(items))])
}

func keys(a arguments) Value {
	o := a.ev.members(a.at, a.vals[0])
	items := a.ev.list(a.at, len(o.names))
	for i, n := range o.names {
		items[i] = StringValue(n)
	}
	return listValue(items)
}

// fresh returns a copy of the elements of argument 0.
func fresh(a arguments) []Value {
	from := a.items(0)
	items := a.ev.list(a.at, len(from))
	copy(items, from)
	return items
}

func reverse(a arguments) Value {
	items := fresh(a)
	slices.Reverse(items)
	return listValue(items)
}

// uniq keeps the first of equal elements.
func uniq(a arguments) Value {
	var kept []Value
	for _, v := range a.items(0) {
		known := slices.ContainsFunc(kept, func(k Value) bool {
			a.ev.step(a.at)
			return a.ev.equal(k, v)
		})
		if !known {
			kept = append(kept, v)
		}
	}
	return listValue(kept)
}

func concatType(args []stream.Type) stream.Type {
	t := args[0]
	for _, more := range args[1:] {
		t = join(t, more)
	}
	return t
}

func concatLists(a arguments) Value {
	n := 0
	for i := range a.vals {
		n += len(a.items(i))
	}
	items := a.ev.list(a.at, n)[:0]
	for i := range a.vals {
		items = append(items, a.items(i)...)
	}
	return listValue(items)
}

func flatten(a arguments) Value { return listValue(flat(a, nil, a.items(0))) }

func flat(a arguments, out, items []Value) []Value {
	for _, v := range items {
		a.ev.step(a.at)
		if v.kind == stream.List {
			out = flat(a, out, a.ev.items(a.at, v, a.name))
			continue
		}
		a.ev.grow(a.at, valueSize)
		out = append(out, v)
	}
	return out
}

func sortItems(a arguments) Value {
	items := fresh(a)
	sign := descending(a, 1)
	slices.SortStableFunc(items, func(x, y Value) int { return sign * ordered(a, x, y) })
	return listValue(items)
}

// descending reads the optional order, argument i.
func descending(a arguments, i int) int {
	if a.len() <= i {
		return 1
	}
	switch a.text(i) {
	case "asc":
		return 1
	case "desc":
		return -1
	}
	a.fail(CodeInvalid, `the order is "asc" or "desc"`)
	return 0
}

func ordered(a arguments, x, y Value) int {
	a.ev.step(a.at)
	order, ok := Compare(x, y)
	if !ok {
		unordered(a.at, a.name, x, y)
	}
	return order
}
