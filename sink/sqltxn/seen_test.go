package sqltxn

import (
	"context"
	"testing"

	"etl/internal/pgconn"
	"etl/stream"
)

// What was seen committed is missed where it was written: a subtask, and a book. A pipeline
// file that names another schema has another one, in which nothing was ever committed.
func TestSeenIsMissedWhereItWas(t *testing.T) {
	l, _ := pairs(t)
	moved := l.book
	moved.Schema = "moved"
	l.run("CREATE SCHEMA moved", "CREATE TABLE moved.marker (LIKE etl.marker INCLUDING ALL)")
	var seen Seen
	seen.Committed(l.book, 0, id)
	for _, tc := range []struct {
		name    string
		book    Book
		subtask int
		code    string
	}{
		{"the same", l.book, 0, "postgres.forgotten"},
		{"another subtask", l.book, 1, ""},
		{"another book", moved, 0, ""},
	} {
		l.do(func(ctx context.Context, c *pgconn.Conn) error {
			if _, err := seen.Newest(ctx, c, tc.book, tc.subtask); stream.CodeOf(err) != tc.code {
				t.Errorf("%s: %v", tc.name, err)
			}
			return nil
		})
	}
}
