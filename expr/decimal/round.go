package decimal

import "github.com/cockroachdb/apd/v3"

// Trunc returns x without its fraction.
func (x Number) Trunc() Number {
	whole, _, _ := x.split()
	return whole
}

// Floor returns the greatest whole number not above x.
func (x Number) Floor() Number {
	whole, frac, _ := x.split()
	return step(whole, min(frac, 0))
}

// Ceil returns the least whole number not below x.
func (x Number) Ceil() Number {
	whole, frac, _ := x.split()
	return step(whole, max(frac, 0))
}

// Round returns the whole number nearest to x, halves away from zero.
func (x Number) Round() Number {
	whole, frac, half := x.split()
	if half {
		return step(whole, frac)
	}
	return whole
}

func step(whole Number, by int) Number {
	if by == 0 {
		return whole
	}
	n, _ := Add(whole, Int(int64(by))) // cannot be out of range: a fraction was cut off
	return n
}

// split returns x without its fraction, the sign of the fraction, and whether the
// fraction is a half or more.
func (x Number) split() (whole Number, frac int, half bool) {
	if x.IsInt() {
		return x, 0, false
	}
	if x.big == nil && int(-x.exp) < len(pow10) {
		unit := pow10[-x.exp]
		rest := x.coef % unit
		return Int(x.coef / unit), sign(rest), 2*magnitude(rest) >= uint64(unit)
	}
	var i, f apd.Decimal
	x.apd().Modf(&i, &f)
	whole, err := fromAPD(&i)
	if err != nil {
		return x, 0, false
	}
	f2 := f
	f2.Negative = false
	return whole, f.Sign(), f2.Cmp(apd.New(5, -1)) >= 0
}
