package expr

import (
	"strings"
	"unsafe"

	"etl/expr/decimal"
	"etl/expr/jsondoc"
	"etl/stream"
)

// Value is the result of an expression. It is valid until the next call on the
// evaluator that made it. The zero Value has kind Any and stands for none.
//
// It is three words in four fields: the compiler keeps such a struct in registers,
// and values are what evaluation moves about.
type Value struct {
	kind stream.Kind
	exp  int32          // of a decimal; of a list or object, whether it was made
	num  int64          // coefficient; 1 for true; length of text or of a made list; node of a document
	ptr  unsafe.Pointer // text; number too big for num; *jsondoc.Doc; elements of a made list; *object that was made
}

// made marks lists and objects that no document holds.
const made = 1

type object struct {
	names  []string
	values []Value
}

var null = Value{kind: stream.Null}

// NullValue returns null.
func NullValue() Value { return null }

// BoolValue returns b as a Value.
func BoolValue(b bool) Value {
	if b {
		return Value{kind: stream.Bool, num: 1}
	}
	return Value{kind: stream.Bool}
}

// NumberValue returns n as a Value: an int if it is one, else a decimal.
func NumberValue(n decimal.Number) Value {
	coef, exp, big := n.Parts()
	switch {
	case big != nil:
		return Value{kind: stream.Decimal, ptr: unsafe.Pointer(big)}
	case exp == 0:
		return Value{kind: stream.Int, num: coef}
	}
	return Value{kind: stream.Decimal, exp: exp, num: coef}
}

// IntValue returns n as a Value.
func IntValue(n int64) Value { return Value{kind: stream.Int, num: n} }

// StringValue returns s as a Value.
func StringValue(s string) Value {
	return Value{kind: stream.String, num: int64(len(s)), ptr: unsafe.Pointer(unsafe.StringData(s))}
}

// TextValue returns the text of b as a Value that lies in b.
func TextValue(b []byte) Value { return StringValue(view(b)) }

func listValue(items []Value) Value {
	return Value{kind: stream.List, exp: made, num: int64(len(items)), ptr: unsafe.Pointer(unsafe.SliceData(items))}
}

func objectValue(o *object) Value {
	return Value{kind: stream.Object, exp: made, ptr: unsafe.Pointer(o)}
}

// nodeValue returns a list or object of a document.
func nodeValue(k stream.Kind, d *jsondoc.Doc, n jsondoc.Node) Value {
	return Value{kind: k, num: int64(n), ptr: unsafe.Pointer(d)}
}

// text returns the text of a string.
func (v Value) text() string { return unsafe.String((*byte)(v.ptr), int(v.num)) }

// number returns the value of an int or decimal.
func (v Value) number() decimal.Number {
	if v.ptr != nil {
		return decimal.Big((*decimal.BigNumber)(v.ptr))
	}
	return decimal.Make(v.num, v.exp)
}

// doc returns the place of a list or object of a document.
func (v Value) doc() (*jsondoc.Doc, jsondoc.Node, bool) {
	if v.kind != stream.List && v.kind != stream.Object || v.exp == made {
		return nil, 0, false
	}
	return (*jsondoc.Doc)(v.ptr), jsondoc.Node(v.num), true
}

// list returns the elements of a list that was made; false for anything else.
func (v Value) list() ([]Value, bool) {
	if v.exp != made || v.kind != stream.List {
		return nil, false
	}
	return unsafe.Slice((*Value)(v.ptr), int(v.num)), true
}

// object returns an object that was made; nil for anything else.
func (v Value) object() *object {
	if v.exp != made || v.kind != stream.Object {
		return nil
	}
	return (*object)(v.ptr)
}

// Kind returns the kind of v: Null, Bool, Int, Decimal, String, List or Object.
func (v Value) Kind() stream.Kind { return v.kind }

// IsNull reports whether v is null.
func (v Value) IsNull() bool { return v.kind == stream.Null }

// Bool returns the value of a bool, and false for every other kind.
func (v Value) Bool() bool { return v.kind == stream.Bool && v.num == 1 }

// Number returns the value of an int or decimal; ok is false for other kinds.
func (v Value) Number() (n decimal.Number, ok bool) {
	if v.kind != stream.Int && v.kind != stream.Decimal {
		return decimal.Number{}, false
	}
	return v.number(), true
}

// Text returns the text of a string; ok is false for other kinds. It is valid as
// long as v.
func (v Value) Text() (s string, ok bool) {
	if v.kind != stream.String {
		return "", false
	}
	return v.text(), true
}

// AppendJSON appends v as JSON. A list or object of a document is copied as it
// stands there.
func (v Value) AppendJSON(dst []byte) []byte {
	switch v.kind {
	case stream.Bool:
		if v.num == 1 {
			return append(dst, "true"...)
		}
		return append(dst, "false"...)
	case stream.Int, stream.Decimal:
		return v.number().Append(dst)
	case stream.String:
		return jsondoc.AppendString(dst, v.text())
	case stream.List, stream.Object:
		return v.appendNested(dst)
	}
	return append(dst, "null"...)
}

func (v Value) appendNested(dst []byte) []byte {
	if d, n, ok := v.doc(); ok {
		return append(dst, d.Raw(n)...)
	}
	if items, ok := v.list(); ok {
		return appendItems(dst, items)
	}
	return v.object().appendJSON(dst)
}

func appendItems(dst []byte, items []Value) []byte {
	dst = append(dst, '[')
	for i, e := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = e.AppendJSON(dst)
	}
	return append(dst, ']')
}

func (o *object) appendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	for i, e := range o.values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(jsondoc.AppendString(dst, o.names[i]), ':')
		dst = e.AppendJSON(dst)
	}
	return append(dst, '}')
}

// AppendText appends v as text: a string as it is, null as nothing, everything
// else as JSON.
func (v Value) AppendText(dst []byte) []byte {
	switch v.kind {
	case stream.String:
		return append(dst, v.text()...)
	case stream.Null:
		return dst
	}
	return v.AppendJSON(dst)
}

// set adds or replaces a member, so that names stay unique.
func (o *object) set(name string, v Value) {
	for i, n := range o.names {
		if n == name {
			o.values[i] = v
			return
		}
	}
	o.names, o.values = append(o.names, name), append(o.values, v)
}

func (o *object) get(name string) (Value, bool) {
	for i, n := range o.names {
		if n == name {
			return o.values[i], true
		}
	}
	return null, false
}

// clone copies the text of v out of every buffer, for constants.
func (v Value) clone() Value {
	if v.kind == stream.String {
		return StringValue(strings.Clone(v.text()))
	}
	return v
}
