package decimal

import (
	"math"
	"math/bits"

	"github.com/cockroachdb/apd/v3"
)

// exact rounds nothing; quotient rounds to the width of IEEE decimal128.
var (
	exact    = apd.BaseContext
	quotient = func() *apd.Context {
		c := apd.BaseContext.WithPrecision(34)
		c.Rounding = apd.RoundHalfEven
		return c
	}()
)

// Add returns x + y.
func Add(x, y Number) (Number, error) {
	if a, b, exp, ok := align(x, y); ok {
		if sum := a + b; (sum > a) == (b > 0) {
			return Number{coef: sum, exp: exp}, nil
		}
	}
	var d apd.Decimal
	return finish(&d, func(c *apd.Context) (apd.Condition, error) { return c.Add(&d, x.apd(), y.apd()) })
}

// Sub returns x - y.
func Sub(x, y Number) (Number, error) {
	if a, b, exp, ok := align(x, y); ok {
		if diff := a - b; (diff < a) == (b > 0) {
			return Number{coef: diff, exp: exp}, nil
		}
	}
	var d apd.Decimal
	return finish(&d, func(c *apd.Context) (apd.Condition, error) { return c.Sub(&d, x.apd(), y.apd()) })
}

// Mul returns x * y.
func Mul(x, y Number) (Number, error) {
	if x.big == nil && y.big == nil {
		if p, ok := mul64(x.coef, y.coef); ok && x.exp+y.exp >= -MaxDigits {
			return Number{coef: p, exp: x.exp + y.exp}, nil
		}
	}
	var d apd.Decimal
	return finish(&d, func(c *apd.Context) (apd.Condition, error) { return c.Mul(&d, x.apd(), y.apd()) })
}

// Quo returns x / y to 34 digits.
func Quo(x, y Number) (Number, error) {
	if y.Sign() == 0 {
		return Number{}, ErrDivideByZero
	}
	if x.IsInt() && y.IsInt() && x.coef%y.coef == 0 && x.coef != math.MinInt64 {
		return Number{coef: x.coef / y.coef}, nil
	}
	var d apd.Decimal
	if _, err := quotient.Quo(&d, x.apd(), y.apd()); err != nil {
		return Number{}, ErrRange
	}
	d.Reduce(&d) // an exact quotient is padded to 34 digits
	return fromAPD(&d)
}

// Rem returns the remainder of x / y, with the sign of x. Both must be integers.
func Rem(x, y Number) (Number, error) {
	switch {
	case !x.IsInt() || !y.IsInt():
		return Number{}, ErrNotInt
	case y.coef == 0:
		return Number{}, ErrDivideByZero
	case y.coef == -1: // the one division that overflows
		return Number{}, nil
	}
	return Number{coef: x.coef % y.coef}, nil
}

// Pow returns x to the power y, an integer of at least 0.
func Pow(x, y Number) (Number, error) {
	n, ok := y.Int64()
	if !ok || n < 0 {
		return Number{}, ErrNotInt
	}
	result, err := Int(1), error(nil)
	for ; n > 0 && err == nil; n >>= 1 {
		if n&1 == 1 {
			result, err = Mul(result, x)
		}
		if err == nil && n > 1 {
			x, err = Mul(x, x)
		}
	}
	return result, err
}

// Neg returns -x.
func Neg(x Number) Number {
	if x.big == nil && x.coef != math.MinInt64 {
		return Number{coef: -x.coef, exp: x.exp}
	}
	n, _ := fromAPD(new(apd.Decimal).Neg(x.apd()))
	return n
}

// Abs returns x without its sign.
func Abs(x Number) Number {
	if x.Sign() < 0 {
		return Neg(x)
	}
	return x
}

// Cmp returns -1, 0 or 1 as x is less than, equal to or greater than y.
func Cmp(x, y Number) int {
	if a, b, _, ok := align(x, y); ok {
		switch {
		case a < b:
			return -1
		case a > b:
			return 1
		}
		return 0
	}
	return x.apd().Cmp(y.apd())
}

// align brings two inline numbers to one exponent; false when that takes more
// than 64 bits.
func align(x, y Number) (a, b int64, exp int32, ok bool) {
	if x.big != nil || y.big != nil {
		return 0, 0, 0, false
	}
	a, b, exp, ok = x.coef, y.coef, x.exp, true
	switch {
	case x.exp > y.exp:
		a, ok = scale(a, x.exp-y.exp)
		exp = y.exp
	case y.exp > x.exp:
		b, ok = scale(b, y.exp-x.exp)
	}
	return a, b, exp, ok
}

func scale(n int64, by int32) (int64, bool) {
	if by >= int32(len(pow10)) {
		return n, n == 0
	}
	return mul64(n, pow10[by])
}

func mul64(a, b int64) (int64, bool) {
	hi, lo := bits.Mul64(magnitude(a), magnitude(b))
	if hi != 0 || lo > math.MaxInt64 {
		return 0, false
	}
	if (a < 0) != (b < 0) {
		return -int64(lo), true
	}
	return int64(lo), true
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

// finish runs an exact operation of apd whose result is d.
func finish(d *apd.Decimal, op func(*apd.Context) (apd.Condition, error)) (Number, error) {
	if cond, err := op(&exact); err != nil || cond&^(apd.Rounded|apd.Inexact) != 0 {
		return Number{}, ErrRange
	}
	return fromAPD(d)
}
