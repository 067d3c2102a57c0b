package pgconn

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"etl/internal/peer/peertest"
	"etl/stream"
)

// behind returns the address of a listener that answers the first bytes of every
// connection with answer and, if asked to, ends it. It keeps the others until the test ends.
func behind(t *testing.T, answer string, ends bool) string {
	t.Helper()
	return peertest.Listen(t, func(c net.Conn) {
		if answer != "" {
			_, _ = bufio.NewReader(c).Peek(1)
			_, _ = io.WriteString(c, answer)
		}
		if ends {
			_ = c.Close()
		}
	})
}

// TestAttempts: a connection that fails is told in one line and once, whatever number of
// attempts pgx makes, with what was seen of the other side and what to do.
func TestAttempts(t *testing.T) {
	clean(t)
	for _, tc := range []struct {
		name, addr, query string
		class             stream.Class
		code, says, fix   string
	}{
		{"HTTP", behind(t, "HTTP/1.1 400 Bad Request\r\n\r\n", true), "", stream.Environment, "postgres.wrong_port", "this port speaks HTTP", "usually 5432"},
		{"HTTP instead of TLS", behind(t, "HTTP/1.1 400 Bad Request\r\n\r\n", true), "sslmode=require", stream.Environment, "postgres.wrong_port", "this port speaks HTTP", "usually 5432"},
		{"TLS", behind(t, "\x15\x03\x01\x00\x02\x02\x46", false), "", stream.Environment, "postgres.wrong_port", "this port speaks TLS", "usually 5432"},
		{"nothing", behind(t, "", false), "connect_timeout=1", stream.Retry, CodeUnreachable, "accepts connections and does not answer", "whether the server hangs"},
		{"no TLS", behind(t, "N", true), "sslmode=require", stream.Environment, "postgres.tls", "server refused TLS connection", "sslmode=disable"},
		{"no TLS, then nothing", behind(t, "N", true), "sslmode=prefer", stream.Retry, CodeUnreachable, "failed to receive message", "the network between"},
		{"nobody", "127.0.0.1:1", "", stream.Retry, CodeUnreachable, "connection refused", "that it runs"},
	} {
		p, err := Open(t.Context(), Config{DSN: "postgres://u@" + tc.addr + "/d?" + tc.query}, 1, "test")
		if err != nil {
			t.Fatal(err)
		}
		err = p.With(t.Context(), func(*Conn) error { return nil })
		p.Close()
		e := &stream.Error{Err: io.EOF}
		if !errors.As(err, &e) || e.Class != tc.class || e.Code != tc.code || !strings.Contains(e.Fix, tc.fix) {
			t.Errorf("%s: %v (%v, %s)", tc.name, err, stream.ClassOf(err), stream.CodeOf(err))
		}
		said := e.Err.Error()
		if strings.Contains(said, "\n") || strings.Count(said, tc.says) != 1 || !strings.Contains(said, tc.addr) || tc.code != "postgres.tls" && strings.Contains(said, noTLS) {
			t.Errorf("%s: %s", tc.name, said)
		}
	}
}
