package config

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"etl/stream"
)

// The limits of a pipeline file. The parser's time grows with the square of the
// lines in the worst case, so that a file at the limits takes a second.
const (
	MaxFile  = 128 << 10 // bytes
	MaxLines = 5000
	// maxProblems is the number of problems that are reported one by one.
	maxProblems = 200
)

// document is the text of a file, and what was found wrong with it.
type document struct {
	file     string
	text     string
	lines    []string
	masked   []maskedLine
	problems Problems
	omitted  [2]int   // errors and warnings beyond maxProblems
	doubted  []string // paths of keys that seem to be there under a misspelt name
}

// newDocument checks that data can be text at all. The second result is false
// when there is no point in parsing it.
func newDocument(file string, data []byte) (*document, bool) {
	d := &document{file: file}
	if len(data) > MaxFile {
		d.add(Pos{}, "", "config.too_large", fmt.Sprintf("the file has %d bytes, more than the %d that are read", len(data), MaxFile), "is this a pipeline file?")
		return d, false
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if isUTF16(data) {
		d.add(Pos{}, "", "config.encoding", "the file is in UTF-16", "save it as UTF-8")
		return d, false
	}
	d.text = strings.ReplaceAll(string(data), "\r\n", "\n")
	d.lines = strings.Split(d.text, "\n")
	if len(d.lines) > MaxLines {
		d.lines = nil
		d.add(Pos{}, "", "config.too_large", fmt.Sprintf("the file has more than %d lines", MaxLines), "is this a pipeline file?")
		return d, false
	}
	d.masked = maskSecrets(d.lines)
	return d, d.checkText()
}

// isUTF16 knows both byte order marks, and text without one by its zero bytes.
func isUTF16(b []byte) bool {
	if bytes.HasPrefix(b, []byte{0xff, 0xfe}) || bytes.HasPrefix(b, []byte{0xfe, 0xff}) {
		return true
	}
	return len(b) >= 4 && (b[0] == 0 && b[2] == 0 || b[1] == 0 && b[3] == 0)
}

// checkText refuses what no YAML reader should be asked to read.
func (d *document) checkText() bool {
	for i, line := range d.lines {
		at := strings.IndexFunc(line, func(r rune) bool { return r == utf8.RuneError || r < ' ' && r != '\t' || r == 0x7f })
		if at < 0 {
			continue
		}
		pos := Pos{i + 1, utf8.RuneCountInString(line[:at]) + 1}
		if r, size := utf8.DecodeRuneInString(line[at:]); r != utf8.RuneError {
			d.add(pos, "", "config.encoding", fmt.Sprintf("the control character %U", r), "remove it, or write it as an escape in double quotes")
		} else if size == 1 {
			d.add(pos, "", "config.encoding", "bytes that are not UTF-8", "save the file as UTF-8")
		} else {
			continue // a replacement character that somebody typed
		}
		return false
	}
	return true
}

// add records an error.
func (d *document) add(at Pos, path, code, message, fix string) {
	d.put(Error, at, path, code, message, fix)
}

func (d *document) put(s Severity, at Pos, path, code, message, fix string) {
	if len(d.problems) >= maxProblems {
		d.omit(s)
		return
	}
	d.problems = append(d.problems, Problem{class: stream.BadConfig, Code: code, Severity: s, File: d.file, Line: at.Line, Column: at.Column,
		Path: path, Message: clean(message), Fix: clean(fix), Excerpt: d.excerpt(at)})
}

// withdraw takes a problem back, and reports whether there was one.
func (d *document) withdraw(code, path string) bool {
	before := len(d.problems)
	d.problems = slices.DeleteFunc(d.problems, func(p Problem) bool { return p.Code == code && p.Path == path })
	return len(d.problems) < before
}

func (d *document) omit(s Severity) {
	if s == Error {
		d.omitted[0]++
	} else {
		d.omitted[1]++
	}
}

// all returns the problems in order, with one that counts those left out.
func (d *document) all() Problems {
	ps := d.problems.sorted()
	if e, w := d.omitted[0], d.omitted[1]; e+w > 0 {
		s := Warning
		if e > 0 {
			s = Error
		}
		ps = append(ps, Problem{class: stream.BadConfig, Code: "config.too_many", Severity: s, File: d.file, Message: fmt.Sprintf("%s and %s more", count(e, "error"), count(w, "warning"))})
	}
	return ps
}

// excerpt returns the line of a place and the one before, with a caret below.
func (d *document) excerpt(at Pos) string {
	if at.Line < 1 || at.Line > len(d.masked) {
		return ""
	}
	var b strings.Builder
	width := len(fmt.Sprint(at.Line))
	for n := max(at.Line-1, 1); n <= at.Line; n++ {
		if n == at.Line || strings.TrimSpace(d.masked[n-1].text) != "" {
			fmt.Fprintf(&b, "%*d | %s\n", width, n, clean(strings.ReplaceAll(d.masked[n-1].text, "\t", " ")))
		}
	}
	column := d.masked[at.Line-1].column(at.Column)
	fmt.Fprintf(&b, "%*s | %s^", width, "", strings.Repeat(" ", max(column-1, 0)))
	return b.String()
}

// clean keeps control characters of a file or an environment variable from
// reaching a terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 {
			return '·'
		}
		return r
	}, s)
}
