package sqltxn

import (
	"fmt"
	"strings"

	"etl/stream"
)

// form is how values of a type are written.
type form uint8

const (
	unsupported form = iota
	boolForm
	int2Form
	int4Form
	int8Form
	float4Form
	float8Form
	numericForm
	textForm
	byteaForm
	uuidForm
	jsonForm
	jsonbForm
	timestamptzForm
	timestampForm
	dateForm
	timeForm
	enumForm
	arrayForm
)

// byName are the types of pg_catalog that values can be written for.
var byName = map[string]form{
	"bool": boolForm, "int2": int2Form, "int4": int4Form, "int8": int8Form, "float4": float4Form, "float8": float8Form,
	"numeric": numericForm, "text": textForm, "varchar": textForm, "bpchar": textForm, "bytea": byteaForm, "uuid": uuidForm,
	"json": jsonForm, "jsonb": jsonbForm, "timestamptz": timestamptzForm, "timestamp": timestampForm, "date": dateForm, "time": timeForm,
}

// Type is the type of a column, as values are encoded for it. A domain is the type it
// stands for; what it demands, the server checks.
type Type struct {
	// Declared is the type as the table's definition words it: numeric(10,2).
	Declared string
	// OID and Array are the type and its array type, as parameters are sent.
	OID, Array uint32
	// Elem is the type of the elements of an array, nil for anything else.
	Elem *Type

	form   form
	name   string          // in pg_catalog
	labels map[string]bool // of an enum
	// length bounds varchar and char, in characters; precision and scale numeric; -1
	// for no bound.
	length, precision, scale int
	domain                   bool
}

// IsArray reports whether values are lists.
func (t *Type) IsArray() bool { return t.form == arrayForm }

// accepted are the kinds of values that a form takes.
var accepted = map[form][]stream.Kind{
	boolForm: {stream.Bool},
	int2Form: {stream.Int, stream.Decimal}, int4Form: {stream.Int, stream.Decimal}, int8Form: {stream.Int, stream.Decimal},
	float4Form: {stream.Int, stream.Decimal}, float8Form: {stream.Int, stream.Decimal}, numericForm: {stream.Int, stream.Decimal},
	textForm: {stream.String}, byteaForm: {stream.String}, uuidForm: {stream.String}, enumForm: {stream.String},
	timestamptzForm: {stream.String, stream.Int}, timestampForm: {stream.String, stream.Int}, dateForm: {stream.String}, timeForm: {stream.String},
	arrayForm: {stream.List},
}

// Accepts returns an error when values of a kind, known before the first record, can
// never be written for the type.
func (t *Type) Accepts(k stream.Kind) error {
	if k == stream.Any || k == stream.Null || t.form == jsonForm || t.form == jsonbForm {
		return nil
	}
	for _, a := range accepted[t.form] {
		if a == k {
			return nil
		}
	}
	return t.refuse(k)
}

// refuse says that a kind of value does not fit, and what would.
func (t *Type) refuse(k stream.Kind) error {
	hint := ""
	switch {
	case t.form == textForm:
		hint = "; write string(...) to store it as text"
	case k == stream.String && (t.form == int4Form || t.form == int8Form || t.form == int2Form):
		hint = "; write int(...) to read a number from text"
	case k == stream.String && (t.form == numericForm || t.form == float4Form || t.form == float8Form):
		hint = "; write float(...) to read a number from text"
	case k == stream.Decimal && (t.form == timestamptzForm || t.form == timestampForm):
		hint = "; whole numbers are milliseconds since 1970"
	}
	return badValue(fmt.Sprintf("%s is not %s%s", article(k.String()), t.takes(), hint))
}

func article(s string) string {
	if strings.ContainsRune("aeiou", rune(s[0])) {
		return "an " + s
	}
	return "a " + s
}

// takes words what fits: "a bool", "text that is a uuid".
func (t *Type) takes() string { return "a value of type " + t.Declared }

// badValue is a value that does not fit its column. The text names no value.
type badValue string

func (b badValue) Error() string { return string(b) }

// keyable returns why a column of the type cannot be part of a key: the key is compared
// by its bytes, so equal values must have equal bytes.
func (t *Type) keyable() error {
	switch {
	case t.form == float4Form || t.form == float8Form:
		return badValue("a floating-point number is no key: values that print alike may differ")
	case t.form == jsonForm || t.form == jsonbForm || t.form == arrayForm:
		return badValue("a column of type " + t.Declared + " is no key")
	case t.name == "bpchar":
		return badValue("char(n) is no key: it compares without the blanks at its end; use text")
	case t.form == textForm && t.name == "":
		return badValue(t.Declared + " is no key: it may call texts equal that differ")
	}
	return nil
}
