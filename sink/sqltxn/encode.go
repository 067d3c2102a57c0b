package sqltxn

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"etl/expr"
	"etl/expr/decimal"
	"etl/stream"
)

var be = binary.BigEndian

// nullField is the length of a null.
const nullField = 0xFFFFFFFF

// appendNull appends a field that is null.
func appendNull(dst []byte) []byte { return be.AppendUint32(dst, nullField) }

// field appends a field whose contents f appends, with its length before it.
func field(dst []byte, f func([]byte) ([]byte, error)) ([]byte, error) {
	at := len(dst)
	dst, err := f(append(dst, 0, 0, 0, 0))
	if err != nil {
		return dst[:at], err
	}
	be.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst, nil
}

// Append appends v as a field: its length, and its value in the binary form of the type.
// dst comes back as it was on error. key writes equal values as equal bytes.
func (t *Type) Append(dst []byte, v expr.Value, key bool) ([]byte, error) {
	if v.IsNull() {
		return appendNull(dst), nil
	}
	return field(dst, func(dst []byte) ([]byte, error) { return t.append(dst, v, key) })
}

func (t *Type) append(dst []byte, v expr.Value, key bool) ([]byte, error) {
	switch t.form {
	case jsonForm:
		return v.AppendJSON(dst), nil
	case jsonbForm:
		return appendJSONB(dst, v)
	case boolForm:
		if v.Kind() != stream.Bool {
			return dst, t.refuse(v.Kind())
		}
		if v.Bool() {
			return append(dst, 1), nil
		}
		return append(dst, 0), nil
	}
	if n, ok := v.Number(); ok {
		switch t.form {
		case int2Form, int4Form, int8Form:
			return t.appendInt(dst, n)
		case float4Form, float8Form:
			return t.appendFloat(dst, n)
		case numericForm:
			return t.appendNumeric(dst, n, key)
		case timestamptzForm, timestampForm:
			return t.appendMillis(dst, v)
		}
	}
	if s, ok := v.Text(); ok {
		return t.appendText(dst, s)
	}
	return dst, t.refuse(v.Kind())
}

// appendText writes values that come as text.
func (t *Type) appendText(dst []byte, s string) ([]byte, error) {
	switch t.form {
	case textForm:
		if err := t.checkText(s); err != nil {
			return dst, err
		}
		return append(dst, s...), nil
	case enumForm:
		if !t.labels[s] {
			return dst, badValue("a text that is no label of the enum " + t.Declared)
		}
		return append(dst, s...), nil
	case byteaForm:
		return append(dst, s...), nil
	case uuidForm:
		return appendUUID(dst, s)
	case timestamptzForm, timestampForm, dateForm, timeForm:
		return t.appendTime(dst, s)
	}
	return dst, t.refuse(stream.String)
}

// checkText refuses what the server would refuse, before the transaction it would fail.
func (t *Type) checkText(s string) error {
	switch {
	case strings.IndexByte(s, 0) >= 0:
		return badValue("a text with a NUL character (U+0000), which PostgreSQL cannot store")
	case !utf8.ValidString(s):
		return badValue("a text that is not valid UTF-8")
	case t.length >= 0 && len(s) > t.length && utf8.RuneCountInString(strings.TrimRight(s, " ")) > t.length:
		return badValue(fmt.Sprintf("a text of %d characters, and %s holds %d", utf8.RuneCountInString(s), t.Declared, t.length))
	}
	return nil
}

func (t *Type) appendInt(dst []byte, n decimal.Number) ([]byte, error) {
	v, ok := n.Int64()
	switch {
	case ok && t.form == int8Form:
		return be.AppendUint64(dst, uint64(v)), nil
	case ok && t.form == int4Form && v == int64(int32(v)):
		return be.AppendUint32(dst, uint32(v)), nil
	case ok && t.form == int2Form && v == int64(int16(v)):
		return be.AppendUint16(dst, uint16(v)), nil
	}
	return dst, badValue("a number that is not whole, or out of range for " + t.Declared)
}

// appendFloat rounds to the nearest value the column can hold, as the column's type says.
func (t *Type) appendFloat(dst []byte, n decimal.Number) ([]byte, error) {
	var buf [64]byte
	bits := 64
	if t.form == float4Form {
		bits = 32
	}
	f, err := strconv.ParseFloat(string(n.Append(buf[:0])), bits)
	if err != nil {
		return dst, badValue("a number out of range for " + t.Declared)
	}
	if bits == 32 {
		return be.AppendUint32(dst, math.Float32bits(float32(f))), nil
	}
	return be.AppendUint64(dst, math.Float64bits(f)), nil
}

// appendUUID reads the usual form, with hyphens or without.
func appendUUID(dst []byte, s string) ([]byte, error) {
	var plain [32]byte
	switch {
	case len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-':
		copy(plain[:], s[:8]+s[9:13]+s[14:18]+s[19:23]+s[24:])
	case len(s) == 32:
		copy(plain[:], s)
	default:
		return dst, badValue("a text that is no uuid")
	}
	at := len(dst)
	dst = append(dst, make([]byte, 16)...)
	if _, err := hex.Decode(dst[at:], plain[:]); err != nil {
		return dst[:at], badValue("a text that is no uuid")
	}
	return dst, nil
}

// appendJSONB writes version 1 of jsonb's binary form: the text. What jsonb cannot hold,
// and json can, is refused.
func appendJSONB(dst []byte, v expr.Value) ([]byte, error) {
	dst = append(dst, 1)
	at := len(dst)
	dst = v.AppendJSON(dst)
	if err := checkEscapes(dst[at:]); err != nil {
		return dst[:at-1], err
	}
	return dst, nil
}

// checkEscapes looks at the \u escapes of a JSON text: U+0000 and halves of surrogate
// pairs are fine in JSON and not in jsonb.
func checkEscapes(b []byte) error {
	for {
		i := bytes.IndexByte(b, '\\')
		if i < 0 || i+1 >= len(b) {
			return nil
		}
		if b[i+1] != 'u' || i+6 > len(b) {
			b = b[i+2:]
			continue
		}
		u, low := unit(b[i:]), uint64(0)
		b = b[i+6:]
		if u >= 0xD800 && u < 0xDC00 {
			if low = unit(b); low < 0xDC00 || low > 0xDFFF {
				return badValue(`half of a surrogate pair (\uD800 to \uDFFF), which jsonb cannot store`)
			}
			b = b[6:]
			continue
		}
		switch {
		case u == 0:
			return badValue(`the escape \u0000, which jsonb cannot store`)
		case u >= 0xDC00 && u <= 0xDFFF:
			return badValue(`half of a surrogate pair (\uD800 to \uDFFF), which jsonb cannot store`)
		}
	}
}

// unit reads \uXXXX, 0 when there is none.
func unit(b []byte) uint64 {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0
	}
	u, _ := strconv.ParseUint(string(b[2:6]), 16, 16)
	return u
}
