package expr

import (
	"strings"

	"etl/expr/decimal"
	"etl/stream"
)

func init() {
	number := []stream.Kind{stream.Decimal}
	same := func(t []stream.Type) stream.Type { return numeric(t[0], t[0]) }
	round := func(f func(decimal.Number) decimal.Number) func(a arguments) Value {
		return func(a arguments) Value { return NumberValue(f(operand(a.at, a.vals[0], a.name))) }
	}
	define(map[string]function{
		"abs":   {1, 1, number, same, round(decimal.Abs)},
		"ceil":  {1, 1, number, gives(stream.Int), round(decimal.Number.Ceil)},
		"floor": {1, 1, number, gives(stream.Int), round(decimal.Number.Floor)},
		"round": {1, 1, number, gives(stream.Int), round(decimal.Number.Round)},
		"int":   {1, 1, []stream.Kind{stream.Any}, gives(stream.Int), toInt},
		"float": {1, 1, []stream.Kind{stream.Any}, gives(stream.Decimal), func(a arguments) Value { return NumberValue(toNumber(a)) }},
		"max":   {1, -1, []stream.Kind{stream.Any}, extremeType, func(a arguments) Value { return extreme(a, 1) }},
		"min":   {1, -1, []stream.Kind{stream.Any}, extremeType, func(a arguments) Value { return extreme(a, -1) }},
		"sum":   {1, 1, []stream.Kind{stream.List}, sumType, sum},
		"mean":  {1, 1, []stream.Kind{stream.List}, gives(stream.Decimal), mean},
	})
}

// toNumber reads a number or the text of one.
func toNumber(a arguments) decimal.Number {
	if a.vals[0].kind != stream.String {
		return operand(a.at, a.vals[0], a.name)
	}
	n, ok := decimal.Parse(strings.TrimSpace(a.vals[0].text()))
	if !ok {
		a.fail(CodeInvalid, "text is not a number")
	}
	return n
}

// toInt cuts the fraction off.
func toInt(a arguments) Value {
	n := toNumber(a).Trunc()
	if !n.IsInt() {
		a.fail(CodeRange, "number has more than 64 bits")
	}
	return NumberValue(n)
}

// operands returns the arguments, or the elements of the only one if it is a list.
func operands(a arguments) []Value {
	if a.len() == 1 && a.vals[0].kind == stream.List {
		return a.items(0)
	}
	return a.vals
}

func extremeType(args []stream.Type) stream.Type {
	t := args[0]
	if len(args) == 1 && t.Kind == stream.List {
		return elem(t)
	}
	for _, more := range args[1:] {
		t = join(t, more)
	}
	return t
}

// extreme returns the greatest or least of numbers or of strings; null of none.
func extreme(a arguments, sign int) Value {
	best := null
	for i, v := range operands(a) {
		if i == 0 {
			best = v
		}
		order, ok := Compare(v, best)
		if !ok {
			unordered(a.at, a.name, v, best)
		}
		if order*sign > 0 {
			best = v
		}
	}
	return best
}

func sumType(args []stream.Type) stream.Type { return numeric(elem(args[0]), elem(args[0])) }

func sum(a arguments) Value { return NumberValue(total(a, a.items(0))) }

func total(a arguments, items []Value) decimal.Number {
	t := decimal.Int(0)
	for _, v := range items {
		var err error
		t, err = decimal.Add(t, operand(a.at, v, a.name))
		failNumber(a.at, err)
	}
	return t
}

func mean(a arguments) Value {
	items := a.items(0)
	if len(items) == 0 {
		return null
	}
	n, err := decimal.Quo(total(a, items), decimal.Int(int64(len(items))))
	failNumber(a.at, err)
	return NumberValue(n)
}
