// Package decimal computes with the numbers of JSON documents exactly: integers
// and decimal fractions of up to [MaxDigits] digits, never a float64.
//
// Most numbers are small, so a [Number] holds an int64 coefficient and a scale
// inline and computes with those; whatever does not fit goes to
// cockroachdb/apd. The two ways give the same results.
//
//   - Addition, subtraction and multiplication are exact. They keep the scale,
//     as SQL's numeric does: 10.50 * 2 is 21.00, and a sum has the largest scale
//     of its parts, in whatever order they are added.
//   - Division is exact where 34 significant digits suffice, and rounded half to
//     even to 34 digits where they do not.
//   - A result with more than MaxDigits digits, or a decimal exponent beyond
//     that, is ErrRange.
package decimal

import (
	"errors"

	"github.com/cockroachdb/apd/v3"
)

// MaxDigits bounds the digits of a number before and after the point.
const MaxDigits = 1000

// The errors of arithmetic.
var (
	ErrRange        = errors.New("number has too many digits")
	ErrDivideByZero = errors.New("division by zero")
	ErrNotInt       = errors.New("not an integer of 64 bits")
)

// Number is an exact decimal number: coef * 10^exp. The zero value is 0. Numbers
// are values; two equal ones may have different scales, compare with [Cmp].
type Number struct {
	coef int64
	exp  int32        // never above 0
	big  *apd.Decimal // instead of coef and exp, when they cannot hold the number
}

// Int returns n as a Number.
func Int(n int64) Number { return Number{coef: n} }

// Make returns coef * 10^exp; exp is between -[MaxDigits] and 0.
func Make(coef int64, exp int32) Number { return Number{coef: coef, exp: exp} }

// BigNumber is a number that does not fit in coefficient and exponent. It must not
// be changed.
type BigNumber = apd.Decimal

// Big returns what Parts gave.
func Big(d *BigNumber) Number { return Number{big: d} }

// Parts returns either coefficient and exponent, or a big number where they cannot
// hold it.
func (x Number) Parts() (coef int64, exp int32, big *BigNumber) { return x.coef, x.exp, x.big }

// IsInt reports whether x is an integer of 64 bits written without a fraction:
// 1 is, 1.0 is not.
func (x Number) IsInt() bool { return x.exp == 0 && x.big == nil }

// Int64 returns the value of x when it is a whole number of 64 bits, however it
// is written.
func (x Number) Int64() (int64, bool) {
	if x.IsInt() {
		return x.coef, true
	}
	if x.big != nil {
		n, err := x.big.Int64()
		return n, err == nil
	}
	t := x.Trunc()
	return t.coef, Cmp(t, x) == 0
}

// Sign returns -1, 0 or 1.
func (x Number) Sign() int {
	if x.big != nil {
		return x.big.Sign()
	}
	return sign(x.coef)
}

func sign(n int64) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}

// apd returns x as an apd number that must not be changed.
func (x Number) apd() *apd.Decimal {
	if x.big != nil {
		return x.big
	}
	return apd.New(x.coef, x.exp)
}

// fromAPD takes over d: inline when it fits, ErrRange when it is too long.
func fromAPD(d *apd.Decimal) (Number, error) {
	if d.IsZero() {
		return Number{exp: max(min(d.Exponent, 0), -MaxDigits)}, nil
	}
	digits := d.NumDigits()
	if d.Form != apd.Finite || digits > MaxDigits || int64(d.Exponent) < -MaxDigits || digits+int64(d.Exponent) > MaxDigits {
		return Number{}, ErrRange
	}
	if d.Exponent > 0 && digits+int64(d.Exponent) <= 19 {
		d.Coeff.Mul(&d.Coeff, apd.NewBigInt(pow10[d.Exponent]))
		d.Exponent = 0
	}
	if coef, ok := signed(d); ok && d.Exponent <= 0 {
		return Number{coef: coef, exp: d.Exponent}, nil
	}
	return Number{big: d}, nil
}

// signed returns the coefficient with its sign if it has 64 bits.
func signed(d *apd.Decimal) (int64, bool) {
	if !d.Coeff.IsUint64() {
		return 0, false
	}
	switch u := d.Coeff.Uint64(); {
	case d.Negative && u <= 1<<63:
		return -int64(u), true
	default:
		return int64(u), !d.Negative && u < 1<<63
	}
}

// pow10 holds the powers of ten of 64 bits.
var pow10 = func() (p [19]int64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = p[i-1] * 10
	}
	return p
}()
