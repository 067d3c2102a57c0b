package expr

import (
	"fmt"
	"sort"
	"strings"

	"etl/stream"
)

// The codes of what may be wrong with an expression. They are stable.
const (
	CodeSyntax          = "expr.syntax"
	CodeUnknownField    = "expr.unknown_field"
	CodeUnknownName     = "expr.unknown_name"
	CodeUnknownFunction = "expr.unknown_function"
	CodeType            = "expr.type"
	CodeArguments       = "expr.arguments"
	CodeLimit           = "expr.limit"
	CodeUnsupported     = "expr.unsupported"
	CodeConstant        = "expr.constant"
)

// Error says what is wrong with an expression and where.
type Error struct {
	Code string
	// Line and Column are counted from 1 inside the source; columns in characters.
	Line, Column int
	Message      string
	// Near holds the names that may have been meant, best first.
	Near []string
}

// Error returns the message with the place and the near names.
func (e *Error) Error() string {
	s := fmt.Sprintf("%s (%d:%d)", e.Message, e.Line, e.Column)
	if len(e.Near) > 0 {
		s += "; near: " + strings.Join(e.Near, ", ")
	}
	return s
}

// As makes an Error a *stream.Error of class BadConfig to errors.As.
func (e *Error) As(target any) bool {
	p, ok := target.(**stream.Error)
	if ok {
		*p = stream.Errorf(stream.BadConfig, e.Code, "compile expression", "", "%s", e.Error())
	}
	return ok
}

// Near returns those of names that a misspelt name may have meant, best first, at
// most three.
func Near(name string, names []string) []string {
	type candidate struct {
		name string
		far  int
	}
	var found []candidate
	for _, n := range names {
		far := distance(strings.ToLower(name), strings.ToLower(n))
		if far <= max(len(name), len(n))/3+1 && far < len(n) {
			found = append(found, candidate{n, far})
		}
	}
	sort.Slice(found, func(i, j int) bool {
		return found[i].far < found[j].far || found[i].far == found[j].far && found[i].name < found[j].name
	})
	var near []string
	for _, c := range found[:min(len(found), 3)] {
		near = append(near, c.name)
	}
	return near
}

// distance is the number of edits from a to b, with swapped neighbours as one.
func distance(a, b string) int {
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
