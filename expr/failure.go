package expr

import (
	"errors"
	"fmt"
	"runtime"

	"etl/expr/decimal"
	"etl/stream"
)

// The codes of evaluation errors besides [CodeType], [CodeLimit] and those of
// package jsondoc. They are stable.
const (
	CodeNull         = "expr.null"
	CodeDivideByZero = "expr.divide_by_zero"
	CodeRange        = "expr.number_range"
	CodeInvalid      = "expr.invalid_value"
	CodeKeyNull      = "expr.key_null"
	CodeKeyKind      = "expr.key_kind"
	CodeTextUTF8     = "text.invalid_utf8"
	CodeInternal     = "expr.internal"
)

// failure ends an evaluation: the operators panic with it, and the entry points
// recover it. Closures that pass errors along would be twice the code and a
// register more on the way of every value.
type failure struct {
	code    string
	at      int // position in the source, in characters; -1 for none
	message string
}

// fail ends the evaluation. The message must not hold any part of a record.
func fail(at int, code, format string, args ...any) {
	panic(&failure{code: code, at: at, message: fmt.Sprintf(format, args...)})
}

// failNumber ends the evaluation if arithmetic failed.
func failNumber(at int, err error) {
	switch {
	case err == nil:
	case errors.Is(err, decimal.ErrDivideByZero):
		fail(at, CodeDivideByZero, "division by zero")
	case errors.Is(err, decimal.ErrNotInt):
		fail(at, CodeType, "operand is not an integer of 64 bits")
	default:
		fail(at, CodeRange, "number has more than %d digits", decimal.MaxDigits)
	}
}

// wrongKind ends the evaluation because of the kind of an operand.
func wrongKind(at int, v Value, op, want string) {
	if v.kind == stream.Null {
		fail(at, CodeNull, "%s: operand is null, not %s", op, want)
	}
	fail(at, CodeType, "%s: operand is %s, not %s", op, v.kind, want)
}

// contain turns the panic of an evaluation into err. It is deferred by every entry
// point.
func (ev *Evaluator) contain(err *error) {
	r := recover()
	if r == nil {
		return
	}
	f, ok := r.(*failure)
	if !ok {
		f = &failure{code: CodeInternal, at: -1, message: internal(r)}
	}
	p := ev.prog
	*err = stream.Errorf(stream.Failed, f.code, "evaluate", Where(ev.rec), "%s in `%s`%s", f.message, excerpt(p.src), p.column(f))
}

// internal describes a panic that nobody foresaw. Only the runtime's own texts are
// known to hold no part of a record.
func internal(r any) string {
	if e, ok := r.(runtime.Error); ok {
		return "internal error: " + e.Error()
	}
	return fmt.Sprintf("internal error: %T", r)
}

// column says where in the expression a failure was, if it was in one place.
func (p *Program) column(f *failure) string {
	if f.at < 0 || f.code == CodeInternal {
		return ""
	}
	line, column := place(p.src, f.at)
	if line > 1 {
		return fmt.Sprintf(" at line %d, column %d", line, column)
	}
	return fmt.Sprintf(" at column %d", column)
}

// place turns a position in characters into line and column, from 1.
func place(src string, at int) (line, column int) {
	line, column = 1, 1
	for _, r := range src {
		if at--; at < 0 {
			break
		}
		column++
		if r == '\n' {
			line, column = line+1, 1
		}
	}
	return line, column
}

// Where names the place a record came from: topic/partition@offset.
func Where(rec *stream.Record) string {
	if rec == nil || rec.Topic == "" {
		return ""
	}
	return fmt.Sprintf("%s/%d@%d", rec.Topic, rec.Partition, rec.Offset)
}
