package peer

import (
	"errors"
	"net"
	"syscall"
)

// Stranger says that the other side speaks another protocol.
type Stranger struct {
	Server string
	Speaks string // HTTP or TLS
}

// The protocols that are known by their first bytes.
const (
	HTTP = "HTTP"
	TLS  = "TLS"
)

// Error says what was heard.
func (e *Stranger) Error() string { return e.Server + ": this port speaks " + e.Speaks }

// Silence says that a connection was made and nothing came over it.
type Silence struct {
	Server string
	// Cut says that the other side ended it; else nothing came for as long as was waited.
	Cut bool
	Err error
}

// Error says what was seen.
func (e *Silence) Error() string {
	if e.Cut {
		return e.Server + " accepts connections and cuts them without an answer"
	}
	return e.Server + " accepts connections and does not answer"
}

// Unwrap returns the error of the connection.
func (e *Silence) Unwrap() error { return e.Err }

// Timeout is false: who takes an error for the end of a context would forget this one.
func (e *Silence) Timeout() bool { return false }

// Temporary reports that another attempt may have an answer.
func (e *Silence) Temporary() bool { return true }

// longest is how many bytes it takes to know a stranger.
const longest = 4

// Conn is a connection whose first answer is looked at. Make it with [Expect]; like any
// connection it has one reader at a time.
type Conn struct {
	net.Conn
	server  string
	heard   bool
	pending []byte
}

// Expect returns a connection to a server with its first answer looked at.
func Expect(c net.Conn, server string) *Conn { return &Conn{Conn: c, server: server} }

// Read reads. What the first bytes are may be known before as many were asked for.
func (c *Conn) Read(p []byte) (int, error) {
	if !c.heard {
		if err := c.first(); err != nil {
			return 0, err
		}
	}
	if len(c.pending) > 0 {
		n := copy(p, c.pending)
		c.pending = c.pending[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

func (c *Conn) first() error {
	buf := make([]byte, longest)
	n, err := c.Conn.Read(buf)
	if n == 0 && err != nil {
		return c.silence(err)
	}
	c.heard, c.pending = true, buf[:n]
	if s := stranger(c.pending); s != "" {
		return &Stranger{c.server, s}
	}
	return nil // an error that came with bytes comes again
}

// stranger knows HTTP by the beginning of a status line, and TLS by that of an alert: a
// server begins no handshake. No answer of Kafka begins so, which would be longer than
// 300 MiB, and none of PostgreSQL.
func stranger(b []byte) string {
	switch {
	case len(b) == 0:
	case string(b) == HTTP[:len(b)]:
		return HTTP
	case b[0] == 0x15 && len(b) > 1 && b[1] == 3:
		return TLS
	}
	return ""
}

func (c *Conn) silence(err error) error {
	var ne net.Error
	switch {
	case errors.Is(err, syscall.ECONNRESET):
		return &Silence{c.server, true, err}
	case errors.As(err, &ne) && ne.Timeout():
		return &Silence{c.server, false, err}
	}
	return err
}
