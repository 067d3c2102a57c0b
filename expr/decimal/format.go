package decimal

import "strconv"

// widest is up to how many digits before the point, or zeros behind it, numbers
// are written without an exponent.
const widest = 40

// Append appends x as a JSON number, with its scale: 1.50 stays 1.50.
func (x Number) Append(dst []byte) []byte {
	if x.IsInt() {
		return strconv.AppendInt(dst, x.coef, 10)
	}
	if x.big != nil {
		return appendDigits(dst, x.big.Negative, x.big.Coeff.Append(nil, 10), int(x.big.Exponent))
	}
	var buf [20]byte
	return appendDigits(dst, x.coef < 0, strconv.AppendUint(buf[:0], magnitude(x.coef), 10), int(x.exp))
}

// AppendCanonical appends x so that equal numbers have equal bytes: without zeros
// at the end of a fraction, and zero without a sign.
func (x Number) AppendCanonical(dst []byte) []byte {
	if x.IsInt() {
		return strconv.AppendInt(dst, x.coef, 10)
	}
	if x.big != nil {
		return appendShort(dst, x.big.Negative, x.big.Coeff.Append(nil, 10), int(x.big.Exponent))
	}
	var buf [20]byte
	return appendShort(dst, x.coef < 0, strconv.AppendUint(buf[:0], magnitude(x.coef), 10), int(x.exp))
}

func appendShort(dst []byte, neg bool, digits []byte, exp int) []byte {
	for len(digits) > 1 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
		exp++
	}
	if digits[0] == '0' {
		return append(dst, '0')
	}
	return appendDigits(dst, neg, digits, exp)
}

// String returns x as [Number.Append] writes it.
func (x Number) String() string { return string(x.Append(nil)) }

func appendDigits(dst []byte, neg bool, digits []byte, exp int) []byte {
	if neg {
		dst = append(dst, '-')
	}
	point := len(digits) + exp // digits before the point
	switch {
	case exp >= 0 && point <= widest:
		return appendZeros(append(dst, digits...), exp)
	case exp < 0 && point > 0:
		dst = append(dst, digits[:point]...)
		return append(append(dst, '.'), digits[point:]...)
	case exp < 0 && point > -widest:
		dst = appendZeros(append(dst, '0', '.'), -point)
		return append(dst, digits...)
	}
	dst = append(dst, digits[0])
	if len(digits) > 1 {
		dst = append(append(dst, '.'), digits[1:]...)
	}
	dst = append(dst, 'e')
	return strconv.AppendInt(dst, int64(point-1), 10)
}

func appendZeros(dst []byte, n int) []byte {
	for ; n > 0; n-- {
		dst = append(dst, '0')
	}
	return dst
}
