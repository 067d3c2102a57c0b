package stream

import (
	"errors"
	"fmt"
	"strings"
)

// Class says what the caller of a failed operation may do next. It is the only
// thing about an error that code may branch on besides its Code.
type Class uint8

const (
	// Failed: the operation failed and nothing is known about what would help;
	// the attempt ends and the job fails (exit 1).
	Failed Class = iota
	// Retry: nothing changed; the same call may succeed later.
	Retry
	// Restart: this attempt is over, and restarting from the last checkpoint is
	// exact. The job's restart strategy decides when.
	Restart
	// BadConfig: the pipeline file or the call is wrong (exit 2).
	BadConfig
	// Environment: a server, a disk or a right is missing (exit 3).
	Environment
	// RestoreRefused: stored state cannot be used by this job (exit 4); nothing
	// was changed.
	RestoreRefused
	// DataLoss: output is proven lost, or its fate can no longer be known
	// (exit 5). Never continued silently.
	DataLoss
	// Fenced: another attempt owns the job (exit 6). Do not restart blindly.
	Fenced
)

// String returns the class's name in structured output.
func (c Class) String() string {
	return [...]string{"failed", "retry", "restart", "config", "environment", "restore_refused", "data_loss", "fenced"}[c]
}

// ExitCode returns the exit code of a process that ends with the class.
func (c Class) ExitCode() int {
	return [...]int{1, 1, 1, 2, 3, 4, 5, 6}[c]
}

// Error is an error with what the caller and the operator need: what failed, on
// which value, why, and what to do.
type Error struct {
	Class Class
	// Code is stable and dotted, such as "kafka.timeout_above_broker_maximum".
	Code string
	// Op says what was being done: "commit transaction", "restore".
	Op string
	// Subject is the value or thing it was done to.
	Subject string
	// Err is the cause, or a plain sentence.
	Err error
	// Fix says what to do about it; empty when there is nothing to say.
	Fix string
}

// Error returns "op: subject: why; fix".
func (e *Error) Error() string {
	parts := make([]string, 0, 3)
	for _, p := range []string{e.Op, e.Subject} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	s := strings.Join(parts, ": ")
	if e.Fix != "" {
		s += " -> " + e.Fix
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an Error whose cause is formatted; %w wraps.
func Errorf(c Class, code, op, subject, format string, args ...any) *Error {
	return &Error{Class: c, Code: code, Op: op, Subject: subject, Err: fmt.Errorf(format, args...)}
}

// WithFix returns a copy of e that says what to do.
func (e *Error) WithFix(format string, args ...any) *Error {
	c := *e
	c.Fix = fmt.Sprintf(format, args...)
	return &c
}

// ClassOf returns the class of the outermost Error in err's chain, Failed when
// there is none.
func ClassOf(err error) Class {
	if err == nil { // who asks for every record is to allocate nothing
		return Failed
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return Failed
}

// CodeOf returns the code of the outermost Error in err's chain, "" when there
// is none.
func CodeOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
