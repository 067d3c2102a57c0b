package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"etl/stream"
)

// Severity says whether a problem stops the pipeline from running.
type Severity string

// The severities.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Problem is one thing that is wrong with a pipeline file. The same object is
// rendered for terminals and marshalled for --json.
type Problem struct {
	// Code is stable and dotted: docs/errors.md explains each.
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	// File, Line and Column say where, counted from 1 and in characters; 0 when the
	// problem is not about one place.
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	// Path is the key's path, such as sources.lines.topics[0].
	Path string `json:"path,omitempty"`
	// Message says which value is wrong and why; Fix what to do about it.
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
	// Excerpt is the line with the one before it and a caret below, secrets masked.
	Excerpt string `json:"excerpt,omitempty"`

	class stream.Class // what the caller may do; BadConfig for all that is found in the file
}

// Error returns the problem in one line.
func (p Problem) Error() string {
	parts := make([]string, 0, 3)
	for _, s := range []string{p.Place(), p.Path, p.Message} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	s := strings.Join(parts, ": ")
	if p.Fix != "" {
		s += " -> " + p.Fix
	}
	return s
}

// Place returns file:line:column as far as they are known.
func (p Problem) Place() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Problems is everything that is wrong with a file, in the order of the file.
type Problems []Problem

// Count returns the number of errors and of warnings.
func (ps Problems) Count() (errors, warnings int) {
	for _, p := range ps {
		if p.Severity == Error {
			errors++
		}
	}
	return errors, len(ps) - errors
}

// Failed reports whether there is an error among the problems.
func (ps Problems) Failed() bool {
	n, _ := ps.Count()
	return n > 0
}

// Error returns all errors, one a line.
func (ps Problems) Error() string {
	var lines []string
	for _, p := range ps {
		if p.Severity == Error {
			lines = append(lines, p.Error())
		}
	}
	return strings.Join(lines, "\n")
}

// Err returns the problems as one error, of the class of the first one: BadConfig
// for all that is found in a file. It is nil when there are warnings only.
func (ps Problems) Err() error {
	if !ps.Failed() {
		return nil
	}
	i := slices.IndexFunc(ps, func(p Problem) bool { return p.Severity == Error })
	return &stream.Error{Class: ps[i].class, Code: ps[i].Code, Err: ps}
}

// sorted returns the problems in the order of the file, each once; those that are
// about no place come last.
func (ps Problems) sorted() Problems {
	line := func(p Problem) int {
		if p.Line == 0 {
			return math.MaxInt
		}
		return p.Line
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(line(a), line(b)), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(ps)
}

// Pos is a place in the file, counted from 1, columns in characters. The zero Pos
// is nowhere.
type Pos struct{ Line, Column int }

// before reports whether p comes first.
func (p Pos) before(q Pos) bool {
	return p.Line < q.Line || p.Line == q.Line && p.Column < q.Column
}
