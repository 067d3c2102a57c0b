package jsondoc

import (
	"unicode/utf16"
	"unicode/utf8"
)

// Unescape appends the text that s, the inside of a valid JSON string, stands
// for. Lone surrogates, which only Lenient lets pass, become U+FFFD.
func Unescape(dst, s []byte) []byte {
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			dst = append(dst, s[i])
			continue
		}
		i++
		switch c := s[i]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, size := unescapeRune(s[i+1:])
			dst = utf8.AppendRune(dst, r)
			i += size
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// unescapeRune decodes what follows \u, with the second half of a pair if there
// is one, and returns how many bytes it took.
func unescapeRune(s []byte) (rune, int) {
	r, _ := hex4(s)
	if !isSurrogate(r) {
		return r, 4
	}
	if low, ok := lowHalf(s[4:]); ok && isHigh(r) {
		return utf16.DecodeRune(r, low), 10
	}
	return utf8.RuneError, 4
}

func hex4(s []byte) (r rune, ok bool) {
	if len(s) < 4 {
		return 0, false
	}
	for _, c := range s[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

func isSurrogate(r rune) bool { return 0xd800 <= r && r < 0xe000 }
func isHigh(r rune) bool      { return 0xd800 <= r && r < 0xdc00 }

// lowHalf reads \uDC00 to \uDFFF at the start of s.
func lowHalf(s []byte) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	r, ok := hex4(s[2:])
	return r, ok && 0xdc00 <= r && r < 0xe000
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string in canonical form: only what must be
// escaped is, in its shortest way, so that equal texts have equal bytes.
func AppendString[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[from:i]...)
		dst = appendEscape(dst, c)
		from = i + 1
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}
