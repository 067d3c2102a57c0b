package peer

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answering returns the client's side of a connection whose server says each of parts.
func answering(t *testing.T, parts ...string) *Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = ours.Close() })
	go func() {
		for _, p := range parts {
			_, _ = io.WriteString(theirs, p)
		}
		_ = theirs.Close()
	}()
	return Expect(ours, "broker k:1")
}

// TestStrangers: what is no server of ours is known by its first bytes; whatever else comes
// reaches the reader as it was sent.
func TestStrangers(t *testing.T) {
	for said, speaks := range map[string]string{
		"HTTP/1.1 400 Bad Request\r\n":      HTTP,
		"H":                                 HTTP, // a busy network may bring no more
		"\x15\x03\x01\x00\x02\x02\x46":      TLS,
		"\x00\x00\x00\x10 of Kafka's":       "",
		"N":                                 "", // PostgreSQL has no TLS
		"R\x00\x00\x00\x08\x00\x00\x00\x00": "",
		"\x15\x01\x02":                      "",
		"\x15":                              "", // not enough to know
	} {
		got, err := io.ReadAll(answering(t, said))
		var s *Stranger
		if found := errors.As(err, &s); found != (speaks != "") || found && (s.Speaks != speaks || err.Error() != "broker k:1: this port speaks "+speaks) {
			t.Errorf("%q: %v, want %q", said, err, speaks)
		}
		if speaks == "" && string(got) != said {
			t.Errorf("%q arrived as %q", said, got)
		}
	}
}

// TestOnlyTheFirstAnswerIsLookedAt: a record may hold anything.
func TestOnlyTheFirstAnswerIsLookedAt(t *testing.T) {
	c := answering(t, "abcd", "HTTP/1.1 ")
	one := make([]byte, 1)
	if n, err := c.Read(one); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if rest, err := io.ReadAll(c); string(rest) != "bcdHTTP/1.1 " || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
}

// TestSilence: a time limit before the first answer is a silence, which keeps its cause, and
// which nobody takes for the end of a context; after an answer it is what it was.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		c := Expect(ours, "broker k:1")
		defer c.Close()
		limit := func() { _ = c.SetReadDeadline(time.Now().Add(time.Second)) }
		limit()
		_, err := c.Read(make([]byte, 8))
		var s *Silence
		var ne net.Error
		if !errors.As(err, &s) || s.Cut || !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &ne) || ne.Timeout() || !s.Temporary() {
			t.Errorf("%#v", err)
		}
		if want := "broker k:1 accepts connections and does not answer"; err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
		limit()
		go func() { _, _ = io.WriteString(theirs, "ok") }()
		if n, err := c.Read(make([]byte, 8)); n != 2 || err != nil {
			t.Fatal(n, err)
		}
		limit()
		if _, err := c.Read(make([]byte, 8)); errors.As(err, &s) || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after an answer: %#v", err)
		}
	})
}

// reads is a connection that gives the answers of a script.
type reads struct {
	net.Conn
	script []func(p []byte) (int, error)
}

func (r *reads) Read(p []byte) (int, error) {
	next := r.script[0]
	r.script = r.script[1:]
	return next(p)
}

// TestReadersAreLazy: bytes may come together with the error behind them, and a read may
// bring nothing; neither is a stranger, nor a silence. No more is an error that is no limit.
func TestReadersAreLazy(t *testing.T) {
	gone := &net.OpError{Op: "read", Err: net.ErrClosed}
	c := Expect(&reads{script: []func([]byte) (int, error){
		func([]byte) (int, error) { return 0, nil },
		func(p []byte) (int, error) { return copy(p, "abc"), io.EOF },
		func([]byte) (int, error) { return 0, io.EOF },
	}}, "broker k:1")
	if all, err := io.ReadAll(c); string(all) != "abc" || err != nil {
		t.Errorf("%q, %v", all, err)
	}
	c = Expect(&reads{script: []func([]byte) (int, error){
		func(p []byte) (int, error) { return copy(p, "ab"), gone },
		func([]byte) (int, error) { return 0, gone },
	}}, "broker k:1")
	if all, err := io.ReadAll(c); string(all) != "ab" || err != error(gone) {
		t.Errorf("%q, %v", all, err)
	}
	c = Expect(&reads{script: []func([]byte) (int, error){func([]byte) (int, error) { return 0, gone }}}, "broker k:1")
	if _, err := c.Read(make([]byte, 1)); err != error(gone) {
		t.Errorf("%v", err)
	}
}

// TestCut: a connection that is reset before it has brought anything.
func TestCut(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	theirs, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(theirs.(*net.TCPConn).SetLinger(0), theirs.Close()); err != nil { // a reset
		t.Fatal(err)
	}
	_, err = Expect(c, "broker k:1").Read(make([]byte, 1))
	var s *Silence
	if !errors.As(err, &s) || !s.Cut {
		t.Errorf("%v", err)
	}
	if got := fmt.Sprint(err); got != "broker k:1 accepts connections and cuts them without an answer" {
		t.Error(got)
	}
}
