package config

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"etl/expr"
)

// maskedLine is a line of the file as excerpts show it.
type maskedLine struct {
	text  string
	spans []span
}

// span says that the characters [from, to) of the file are shown as "***".
type span struct{ from, to int }

const hidden = "***"

// column returns where a column of the file is in the masked text.
func (m maskedLine) column(c int) int {
	shift := 0
	for _, s := range m.spans {
		switch {
		case c-1 >= s.to:
			shift += len(hidden) - (s.to - s.from)
		case c-1 > s.from:
			return s.from + 1 + shift
		}
	}
	return c + shift
}

var (
	// A key with its value on the same line, or with none.
	keyValue = regexp.MustCompile(`["']?([A-Za-z][A-Za-z0-9_-]*)["']?\s*:(?:\s+|$)`)
	// What is before the last @, as a password may hold one.
	userInfo = regexp.MustCompile(`://[^\s/@:]*:(\S+)@`)
	// A password among the key=value pairs of an address.
	parameter = regexp.MustCompile(`(?i)\bpassword=('[^']*'|[^=\s"'&,}][^\s"'&,}]*)`)
	// What stands for a secret and is none.
	reference = regexp.MustCompile(`^\$\{(file:[^}]*|[A-Za-z_][A-Za-z0-9_]*(:\?[^}]*)?)\}$`)
)

// maskSecrets hides what may be a secret. It works on the text, not on the parsed
// file: the excerpt of a file that cannot be parsed must not show one either.
func maskSecrets(lines []string) []maskedLine {
	out := make([]maskedLine, len(lines))
	inside := -1 // indentation of the secret key whose value goes on below
	for i, line := range lines {
		indent := len(line) - len(strings.TrimLeft(line, " \t"))
		if inside >= 0 && (indent > inside || !keyValue.MatchString(line)) {
			out[i] = hide(line, []span{{indent, len(line)}})
			continue
		}
		var spans []span
		spans, inside = secretsIn(line, indent)
		out[i] = hide(line, spans)
	}
	return out
}

// secretsIn returns the byte ranges of a line to hide, and the indentation of a
// key whose value may go on in the next lines, -1 for none.
func secretsIn(line string, indent int) (spans []span, inside int) {
	inside = -1
	for _, m := range keyValue.FindAllStringSubmatchIndex(line, -1) {
		if !secretKey(line[m[2]:m[3]]) {
			continue
		}
		inside = indent
		end := valueEnd(line, m[1], strings.ContainsAny(line[:m[0]], "{["))
		end = m[1] + len(strings.TrimRight(line[m[1]:end], " "))
		if v := strings.Trim(line[m[1]:end], `"' `); end > m[1] && !reference.MatchString(v) {
			spans = append(spans, span{m[1], end})
		}
	}
	for _, address := range []*regexp.Regexp{userInfo, parameter} {
		for _, m := range address.FindAllStringSubmatchIndex(line, -1) {
			spans = append(spans, span{m[2], m[3]})
		}
	}
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	return spans, inside
}

// valueEnd finds where the value that begins at from ends.
func valueEnd(line string, from int, flow bool) int {
	if from >= len(line) {
		return from
	}
	if q := line[from]; q == '"' || q == '\'' {
		for i := from + 1; i < len(line); i++ {
			if line[i] == '\\' && q == '"' {
				i++
			} else if line[i] == q {
				return i + 1
			}
		}
		return len(line)
	}
	if flow {
		if i := strings.IndexAny(line[from:], ",}]"); i >= 0 && !strings.HasPrefix(line[from:], "${") {
			return from + i
		}
	}
	if i := strings.Index(line[from:], " #"); i >= 0 {
		return from + i
	}
	return len(line)
}

// secretKey reports whether a key's value is a secret, however the key is spelt.
func secretKey(key string) bool {
	k := strings.ToLower(key)
	for _, word := range []string{"password", "passwd", "passphrase", "secret", "token", "credential", "private_key", "api_key", "apikey"} {
		if strings.Contains(k, word) && !strings.HasSuffix(k, "_file") {
			return true
		}
	}
	return len(k) > 5 && len(expr.Near(k, []string{"password"})) > 0
}

// hide replaces byte ranges, which are turned into ranges of characters.
func hide(line string, spans []span) maskedLine {
	m, last := maskedLine{}, 0
	var b strings.Builder
	for _, s := range spans {
		if s.from < last || s.to <= s.from {
			continue
		}
		b.WriteString(line[last:s.from])
		b.WriteString(hidden)
		last = s.to
		m.spans = append(m.spans, span{utf8.RuneCountInString(line[:s.from]), utf8.RuneCountInString(line[:s.to])})
	}
	b.WriteString(line[last:])
	m.text = b.String()
	return m
}
