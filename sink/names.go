package sink

import (
	"encoding/hex"
	"strconv"
)

// EscapeName escapes a job's or a sink's name for use as a part of a name outside:
// letters, digits, '-' and '_' stay, every other byte becomes %XX. So it holds no
// separator, no two names become the same, and '~' is free for what a sink adds.
func EscapeName(s string) string {
	const hexDigits = "0123456789ABCDEF"
	b := make([]byte, 0, len(s))
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
			b = append(b, c)
		default:
			b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return string(b)
}

// ParseNumber reads what strconv writes, and nothing else (no sign, no leading zero).
func ParseNumber(s string, bits int) (uint64, bool) {
	v, err := strconv.ParseUint(s, 10, bits)
	return v, err == nil && strconv.FormatUint(v, 10) == s
}

// IsLineage8 reports whether s is what stream.Lineage.Short writes.
func IsLineage8(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 4 && hex.EncodeToString(b) == s
}
