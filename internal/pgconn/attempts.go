package pgconn

import (
	"context"
	"errors"
	"slices"
	"strings"

	wire "github.com/jackc/pgx/v5/pgconn"

	"etl/internal/peer"
)

// attempts is the failure of a connection for which several addresses, or the same one
// with and without TLS, were tried. pgx writes a line for each, and the same one again
// where they failed alike.
type attempts struct {
	text string
	err  error
}

// Error says each failure once, in one line.
func (e *attempts) Error() string { return e.text }

// Unwrap returns all of them.
func (e *attempts) Unwrap() error { return e.err }

// noTLS is the failure of an attempt with TLS at a server without it.
const noTLS = "server refused TLS connection"

// worded words the failure of a connection; other errors come back as they are.
func worded(err error) error {
	var ce *wire.ConnectError
	if !errors.As(err, &ce) {
		return err
	}
	each := []error{ce.Unwrap()}
	if joined, ok := each[0].(interface{ Unwrap() []error }); ok {
		each = joined.Unwrap()
	}
	var said []string
	for _, e := range each {
		if s := attempt(e, each); s != "" && !slices.Contains(said, s) {
			said = append(said, s)
		}
	}
	return &attempts{strings.Join(said, "; "), err}
}

// attempt words one of several failures, "" for one that the others explain: that a server
// has no TLS where it was then tried without, and that after a silence no time was left.
func attempt(e error, all []error) string {
	var stranger *peer.Stranger
	var silence *peer.Silence
	has := func(f func(error) bool) bool { return slices.ContainsFunc(all, f) }
	refused := func(e error) bool { return strings.Contains(e.Error(), noTLS) }
	switch {
	case errors.As(e, &stranger):
		return stranger.Error()
	case errors.As(e, &silence):
		return silence.Error()
	case refused(e) && has(func(o error) bool { return !refused(o) }):
		return ""
	case errors.Is(e, context.DeadlineExceeded) && has(func(o error) bool { return errors.As(o, &silence) }):
		return ""
	}
	return e.Error()
}
