package expr

import "etl/stream"

func of(k stream.Kind) stream.Type { return stream.Type{Kind: k} }

func listOf(t stream.Type) stream.Type {
	if t.Kind == stream.Any {
		return of(stream.List)
	}
	return stream.Type{Kind: stream.List, Elem: &t}
}

func elem(t stream.Type) stream.Type {
	if t.Kind == stream.List && t.Elem != nil {
		return *t.Elem
	}
	return of(stream.Any)
}

func isNumber(k stream.Kind) bool {
	return k == stream.Int || k == stream.Decimal || k == stream.Float
}

// may reports whether a value of type t can be of kind k. Every value may be
// null, but a constant null is nothing else.
func may(t stream.Type, kinds ...stream.Kind) bool {
	if t.Kind == stream.Any {
		return true
	}
	for _, k := range kinds {
		if t.Kind == k || isNumber(t.Kind) && k == stream.Decimal {
			return true
		}
	}
	return false
}

// comparable reports whether values of the two types can be equal.
func comparable(a, b stream.Type) bool {
	switch {
	case a.Kind == stream.Any, b.Kind == stream.Any, a.Kind == stream.Null, b.Kind == stream.Null:
		return true
	}
	return a.Kind == b.Kind || isNumber(a.Kind) && isNumber(b.Kind)
}

// join returns a type that holds the values of both.
func join(a, b stream.Type) stream.Type {
	switch {
	case a.Kind == stream.Null:
		return b
	case b.Kind == stream.Null, a.String() == b.String() && !a.Open:
		return a
	case isNumber(a.Kind) && isNumber(b.Kind):
		return of(stream.Decimal)
	case a.Kind == stream.List && b.Kind == stream.List:
		return listOf(join(elem(a), elem(b)))
	case a.Kind == stream.Object && b.Kind == stream.Object:
		return stream.Type{Kind: stream.Object, Open: true}
	}
	return of(stream.Any)
}

// numeric returns the type of an exact operation on two numbers: whatever is not
// known is a number by then.
func numeric(a, b stream.Type) stream.Type {
	if a.Kind == stream.Int && b.Kind == stream.Int {
		return of(stream.Int)
	}
	return of(stream.Decimal)
}
