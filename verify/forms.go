package verify

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"etl/expr/decimal"
	"etl/expr/jsondoc"
)

// form appends a value, which comes as JSON, so that equal values of a type have equal
// bytes: both what is expected and what a table holds go through it.
type form func(dst, raw []byte) ([]byte, error)

var errMisfit = errors.New("the value does not fit its column")

// forms are the types of PostgreSQL that values can be compared of, as format_type names
// them without their modifiers.
var forms = map[string]form{
	"boolean":                     boolForm,
	"smallint":                    numberForm,
	"integer":                     numberForm,
	"bigint":                      numberForm,
	"numeric":                     numberForm,
	"real":                        floatForm(32),
	"double precision":            floatForm(64),
	"text":                        textForm,
	"character varying":           textForm,
	"uuid":                        uuidForm,
	"json":                        documentForm,
	"jsonb":                       documentForm,
	"timestamp with time zone":    timeForm(zonedForms),
	"timestamp without time zone": timeForm(localForms),
	"date":                        dateForm,
}

// plainTypes have values that keys and results of aggregates can be read off.
var plainTypes = []string{"boolean", "smallint", "integer", "bigint", "numeric", "text", "character varying"}

func boolForm(dst, raw []byte) ([]byte, error) {
	if s := string(raw); s != "true" && s != "false" {
		return dst, errMisfit
	}
	return append(dst, raw...), nil
}

func numberForm(dst, raw []byte) ([]byte, error) {
	n, ok := decimal.Parse(string(raw))
	if !ok {
		return dst, errMisfit
	}
	return n.AppendCanonical(dst), nil
}

func floatForm(bits int) form {
	return func(dst, raw []byte) ([]byte, error) {
		if len(raw) == 0 || raw[0] == '"' {
			return dst, errMisfit
		}
		x, err := strconv.ParseFloat(string(raw), bits)
		if err != nil {
			return dst, errMisfit
		}
		return strconv.AppendFloat(dst, x, 'g', -1, bits), nil
	}
}

// text returns the text that a JSON string stands for.
func text(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	return string(jsondoc.Unescape(nil, raw[1:len(raw)-1])), true
}

func textForm(dst, raw []byte) ([]byte, error) {
	s, ok := text(raw)
	if !ok {
		return dst, errMisfit
	}
	return jsondoc.AppendString(dst, s), nil
}

func uuidForm(dst, raw []byte) ([]byte, error) {
	s, ok := text(raw)
	if !ok {
		return dst, errMisfit
	}
	return jsondoc.AppendString(dst, strings.ToLower(strings.NewReplacer("-", "", "{", "", "}", "").Replace(s))), nil
}

func dateForm(dst, raw []byte) ([]byte, error) {
	s, ok := text(raw)
	if _, err := time.Parse(time.DateOnly, s); !ok || err != nil {
		return dst, errMisfit
	}
	return jsondoc.AppendString(dst, s), nil
}

// The ways in which times are written: by people, and by the server.
var (
	zonedForms = []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999Z07"}
	localForms = []string{"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999"}
)

// timeForm counts microseconds since 1970. A number is milliseconds.
func timeForm(layouts []string) form {
	return func(dst, raw []byte) ([]byte, error) {
		if ms, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
			return strconv.AppendInt(dst, ms*1000, 10), nil
		}
		s, ok := text(raw)
		for _, layout := range layouts {
			if at, err := time.Parse(layout, s); ok && err == nil {
				return strconv.AppendInt(dst, at.Round(time.Microsecond).UnixMicro(), 10), nil
			}
		}
		return dst, errMisfit
	}
}

// documentForm writes any document without what does not matter in it: spaces, escapes,
// the order of fields, zeros at the end of fractions. Of two fields of one name the last
// counts.
func documentForm(dst, raw []byte) ([]byte, error) {
	var d jsondoc.Doc
	if err := d.Parse(raw, jsondoc.Lenient); err != nil {
		return dst, err
	}
	return appendNode(dst, &d, 0)
}

func appendNode(dst []byte, d *jsondoc.Doc, n jsondoc.Node) ([]byte, error) {
	switch raw := d.Raw(n); d.Kind(n) {
	case jsondoc.Object:
		return appendFields(dst, d, n)
	case jsondoc.Array:
		dst = append(dst, '[')
		first := true
		for at, ok := d.First(n); ok; at, ok = d.Next(n, at) {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			var err error
			if dst, err = appendNode(dst, d, at); err != nil {
				return dst, err
			}
		}
		return append(dst, ']'), nil
	case jsondoc.String:
		return textForm(dst, raw)
	case jsondoc.Number:
		if out, err := numberForm(dst, raw); err == nil {
			return out, nil
		}
		return append(dst, raw...), nil
	default:
		return append(dst, raw...), nil
	}
}

func appendFields(dst []byte, d *jsondoc.Doc, n jsondoc.Node) ([]byte, error) {
	type field struct{ name, value []byte }
	var fields []field
	for at, ok := d.First(n); ok; at, ok = d.Next(n, at) {
		name, err := textForm(nil, d.Raw(d.Name(at)))
		if err != nil {
			return dst, err
		}
		value, err := appendNode(nil, d, at)
		if err != nil {
			return dst, err
		}
		fields = append(fields, field{name, value})
	}
	slices.SortStableFunc(fields, func(a, b field) int { return bytes.Compare(a.name, b.name) })
	open := byte('{')
	for i, f := range fields {
		if i+1 < len(fields) && bytes.Equal(f.name, fields[i+1].name) {
			continue
		}
		dst = append(append(append(append(dst, open), f.name...), ':'), f.value...)
		open = ','
	}
	if open == '{' {
		dst = append(dst, open)
	}
	return append(dst, '}'), nil
}
