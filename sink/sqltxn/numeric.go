package sqltxn

import (
	"bytes"
	"fmt"
	"strconv"

	"etl/expr/decimal"
)

const (
	numericNegative = 0x4000
	numericGroup    = 4 // decimal digits in one digit of numeric, which has base 10000
	maxScale        = 16383
)

// appendNumeric writes a number exactly: every digit, and the scale it was written with
// (1.50 stays 1.50). A column with a scale refuses what it would have to round: an amount
// that was changed on the way is worse than one that was refused.
func (t *Type) appendNumeric(dst []byte, n decimal.Number, key bool) ([]byte, error) {
	var buf [64]byte
	text := n.Append(buf[:0])
	if key {
		text = n.AppendCanonical(buf[:0]) // equal keys have equal bytes
	}
	d, err := parseDigits(text)
	if err != nil {
		return dst, err
	}
	if t.precision >= 0 {
		if err := t.checkPrecision(d); err != nil {
			return dst, err
		}
	}
	return d.append(dst)
}

// digits is a number as a string of digits: 0.digits * 10^point.
type digits struct {
	negative bool
	digits   []byte // without leading zeros
	point    int    // digits before the decimal point; may be negative, or beyond the end
	scale    int    // digits behind it, as written
}

// parseDigits reads what decimal.Number writes: -12.340e-7. It takes text over.
func parseDigits(text []byte) (d digits, err error) {
	if len(text) > 0 && text[0] == '-' {
		d.negative, text = true, text[1:]
	}
	exp := 0
	if i := bytes.IndexByte(text, 'e'); i >= 0 {
		if exp, err = strconv.Atoi(string(text[i+1:])); err != nil {
			return d, badValue("a number that cannot be read")
		}
		text = text[:i]
	}
	d.point = len(text)
	if i := bytes.IndexByte(text, '.'); i >= 0 {
		d.point = i
		text = append(text[:i], text[i+1:]...)
	}
	d.scale = max(len(text)-d.point-exp, 0)
	d.point += exp
	for len(text) > 0 && text[0] == '0' {
		text = text[1:]
		d.point--
	}
	d.digits = text
	return d, nil
}

// significant returns the digits without zeros at the end.
func (d digits) significant() []byte { return bytes.TrimRight(d.digits, "0") }

func (t *Type) checkPrecision(d digits) error {
	s := d.significant()
	if len(s) == 0 {
		return nil
	}
	if behind := len(s) - d.point; behind > t.scale {
		return badValue(fmt.Sprintf("a number with %d digits behind the point, which %s would round; write round(x * 100) / 100, for example", behind, t.Declared))
	}
	if d.point > t.precision-t.scale {
		return badValue("a number out of range for " + t.Declared)
	}
	return nil
}

// append writes the binary form: number of base-10000 digits, weight of the first one,
// sign, scale, and the digits.
func (d digits) append(dst []byte) ([]byte, error) {
	if d.scale > maxScale || d.point > 131072 {
		return dst, badValue("a number with more digits than numeric holds")
	}
	s := d.significant()
	if len(s) == 0 {
		dst = append(dst, 0, 0, 0, 0, 0, 0)
		return be.AppendUint16(dst, uint16(d.scale)), nil
	}
	// The groups are counted from the decimal point.
	weight := floorDiv(d.point-1, numericGroup)
	lead := (weight+1)*numericGroup - d.point
	count := (lead + len(s) + numericGroup - 1) / numericGroup
	sign := uint16(0)
	if d.negative {
		sign = numericNegative
	}
	dst = be.AppendUint16(dst, uint16(count))
	dst = be.AppendUint16(dst, uint16(int16(weight)))
	dst = be.AppendUint16(dst, sign)
	dst = be.AppendUint16(dst, uint16(d.scale))
	for g := range count {
		v := 0
		for i := range numericGroup {
			v *= 10
			if at := g*numericGroup + i - lead; at >= 0 && at < len(s) {
				v += int(s[at] - '0')
			}
		}
		dst = be.AppendUint16(dst, uint16(v))
	}
	return dst, nil
}

func floorDiv(a, b int) int {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
