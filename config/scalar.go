package config

import (
	"strconv"
	"strings"
	"unicode"
)

// locate returns the place in the file of a character of a scalar's text, given as
// line and column within the text. Block scalars lose their indentation and folded
// ones their line breaks, quoted ones have escapes: what all keep is the order of
// the characters that are not space, so those are counted.
func (d *document) locate(n *node, line, column int) Pos {
	if n.inserted || n.kind != textNode {
		return n.pos
	}
	before := visibleBefore(n.text, line, column)
	var last Pos
	for pos, visible := range d.characters(n) {
		if !visible {
			continue
		}
		if before == 0 {
			return pos
		}
		before--
		last = pos
	}
	if last == (Pos{}) {
		return n.pos
	}
	return Pos{last.Line, last.Column + 1} // behind the end
}

// visibleBefore counts the characters of text before a place that are not space.
func visibleBefore(text string, line, column int) (count int) {
	l, c := 1, 1
	for _, r := range text {
		if l > line || l == line && c >= column {
			break
		}
		if !unicode.IsSpace(r) {
			count++
		}
		c++
		if r == '\n' {
			l, c = l+1, 1
		}
	}
	return count
}

// characters yields the place of each character of a scalar's value, and whether
// it is not space. It may run past the end of the scalar: callers count.
func (d *document) characters(n *node) func(yield func(Pos, bool) bool) {
	line, skip := n.pos.Line, n.pos.Column-1
	switch n.style {
	case block:
		line, skip = line+1, 0 // behind the header
	case singleQuoted, doubleQuoted:
		skip++
	}
	return func(yield func(Pos, bool) bool) {
		for ; line <= len(d.lines); line, skip = line+1, 0 {
			row := []rune(d.lines[line-1])
			for i := skip; i < len(row); {
				size, space, skipped := character(row[i:], n.style)
				if !skipped && !yield(Pos{line, i + 1}, !space) {
					return
				}
				i += size
			}
		}
	}
}

// character reads one character of a value as it is written: its length in the
// file, whether it means space, and whether it means nothing.
func character(row []rune, s style) (size int, space, nothing bool) {
	switch {
	case s == singleQuoted && row[0] == '\'' && len(row) > 1 && row[1] == '\'':
		return 2, false, false
	case s == doubleQuoted && row[0] == '\\':
		return escape(row)
	}
	return 1, unicode.IsSpace(row[0]), false
}

// escape reads a backslash sequence of double quotes.
func escape(row []rune) (size int, space, nothing bool) {
	if len(row) < 2 {
		return 1, false, true // the line goes on
	}
	digits := map[rune]int{'x': 2, 'u': 4, 'U': 8}[row[1]]
	size = min(2+digits, len(row))
	if digits > 0 {
		code, err := strconv.ParseUint(string(row[2:size]), 16, 32)
		return size, err == nil && unicode.IsSpace(rune(code)), false
	}
	return size, strings.ContainsRune("ntrvfN_LP \t", row[1]), false
}
