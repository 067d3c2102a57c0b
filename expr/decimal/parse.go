package decimal

import (
	"math"

	"github.com/cockroachdb/apd/v3"
)

// Parse reads a number as JSON writes it. ok is false when text is not one, or is
// beyond [MaxDigits].
func Parse[T string | []byte](text T) (x Number, ok bool) {
	i := 0
	neg := len(text) > 0 && text[0] == '-'
	if neg {
		i = 1
	}
	var coef uint64
	digits, point := 0, -1
	for ; i < len(text); i++ {
		switch c := text[i]; {
		case '0' <= c && c <= '9':
			coef = coef*10 + uint64(c-'0')
			digits++
		case c == '.' && point < 0 && digits > 0:
			point = digits
		default:
			return parseBig(text)
		}
	}
	if point < 0 {
		point = digits
	}
	// 19 digits fit in 64 bits without a sign, which still may be too much.
	if digits == 0 || digits > 19 || coef > math.MaxInt64 {
		return parseBig(text)
	}
	if text[len(text)-1] == '.' || leadingZero(text, neg, point) {
		return Number{}, false
	}
	x = Number{coef: int64(coef), exp: int32(point - digits)}
	if neg {
		x.coef = -x.coef
	}
	return x, true
}

// leadingZero reports a number such as 01.
func leadingZero[T string | []byte](text T, neg bool, point int) bool {
	if neg {
		return point > 1 && text[1] == '0'
	}
	return point > 1 && text[0] == '0'
}

// parseBig reads numbers with an exponent or with many digits.
func parseBig[T string | []byte](text T) (Number, bool) {
	if !wellFormed(text) {
		return Number{}, false
	}
	d, cond, err := apd.NewFromString(string(text))
	if err != nil || cond.Any() {
		return Number{}, false
	}
	x, err := fromAPD(d)
	return x, err == nil
}

// wellFormed checks the grammar of JSON numbers.
func wellFormed[T string | []byte](s T) bool {
	i := 0
	if i < len(s) && s[i] == '-' {
		i++
	}
	whole := digits(s, i)
	if whole == i || s[i] == '0' && whole > i+1 {
		return false
	}
	if i = whole; i < len(s) && s[i] == '.' {
		frac := digits(s, i+1)
		if frac == i+1 {
			return false
		}
		i = frac
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		if i++; i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		exp := digits(s, i)
		if exp == i {
			return false
		}
		i = exp
	}
	return i == len(s)
}

func digits[T string | []byte](s T, i int) int {
	for i < len(s) && s[i]-'0' <= 9 {
		i++
	}
	return i
}
