package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"etl/stream"
)

// watching runs a watch beside f, in a time of its own, and returns the lines of it with
// the second in which each came.
func watching(t *testing.T, network stream.Dialer, f func(dial stream.Dialer)) (lines []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w := NewWatch(stream.SystemClock{}, func(x Wait) {
			lines = append(lines, fmt.Sprintf("%.0f %s", time.Since(began).Seconds(), x))
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { w.Run(ctx); close(done) }()
		f(w.Dialer(network))
		cancel()
		<-done
	})
	return lines
}

// silent is a network of servers that take connections and say nothing.
func silent(context.Context, string, string) (net.Conn, error) {
	ours, _ := net.Pipe()
	return ours, nil
}

func pass(d time.Duration) { _ = stream.SystemClock{}.Sleep(context.Background(), d) }

const mute = "still waiting for broker k:1: it accepts connections and does not answer"

// TestSilentServer: each attempt is given up after ten seconds; the waiting is one all the
// same. It is told after a few seconds, then more and more rarely, once a minute in the end.
func TestSilentServer(t *testing.T) {
	lines := watching(t, silent, func(dial stream.Dialer) {
		for range 27 {
			c, err := dial(Named(t.Context(), "broker k:1"), "tcp", "10.0.0.1:1")
			if err != nil {
				t.Error(err)
				return
			}
			pass(10 * time.Second)
			_ = c.Close()
			pass(250 * time.Millisecond)
		}
	})
	var want []string
	for _, s := range []int{5, 15, 35, 75, 135, 195, 255} {
		want = append(want, fmt.Sprintf("%d %s", s, mute))
	}
	if !slices.Equal(lines, want) {
		t.Errorf("%q", lines)
	}
}

// TestRefusals words what else is seen of servers that are away.
func TestRefusals(t *testing.T) {
	for why, err := range map[string]error{
		"it refuses connections":        &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
		"its name is not known here":    &net.DNSError{Err: "no such host", Name: "k", IsNotFound: true},
		"it does not take connections":  context.DeadlineExceeded,
		"network is unreachable, it is": errors.New("network is unreachable, it is"),
	} {
		lines := watching(t, func(context.Context, string, string) (net.Conn, error) { return nil, err }, func(dial stream.Dialer) {
			for range 8 {
				_, _ = dial(Named(t.Context(), "broker k:1"), "tcp", "k:1")
				pass(time.Second)
			}
		})
		if want := []string{"5 still waiting for broker k:1: " + why}; !slices.Equal(lines, want) {
			t.Errorf("%q, want %q", lines, want)
		}
	}
}

// TestAnswerEndsTheWaiting: by any connection to the server; the next trouble is counted
// from its own beginning. Nobody is told of a server without a name, nor of one that
// nobody tries to reach any more.
func TestAnswerEndsTheWaiting(t *testing.T) {
	var theirs net.Conn
	network := func(_ context.Context, _, addr string) (net.Conn, error) {
		ours, other := net.Pipe()
		if addr == "answers" {
			theirs = other
		}
		return ours, nil
	}
	lines := watching(t, network, func(dial stream.Dialer) {
		ctx := Named(t.Context(), "broker k:1")
		first, _ := dial(ctx, "tcp", "silent")
		_, _ = dial(t.Context(), "tcp", "nameless")
		pass(3 * time.Second)
		second, _ := dial(ctx, "tcp", "answers")
		go func() { _, _ = io.WriteString(theirs, "x") }()
		if _, err := second.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
		pass(20 * time.Second) // 3..23: the server answers, so the first connection does not count
		third, _ := dial(ctx, "tcp", "silent")
		pass(6 * time.Second) // told at 28
		for _, c := range []net.Conn{first, second, third} {
			_ = c.Close()
		}
		pass(time.Minute + time.Second/2) // nobody waits; what follows is not at the moment of a look
		fourth, _ := dial(ctx, "tcp", "silent")
		pass(2 * time.Second) // told at 90: it is the same trouble
		_ = fourth.Close()
		pass(6 * time.Minute)
		last, _ := dial(ctx, "tcp", "silent")
		pass(6 * time.Second) // told at 457, five seconds after 451.5
		_ = last.Close()
	})
	if want := []string{"28 " + mute, "90 " + mute, "457 " + mute}; !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
}

// TestOneWaiting: attempts side by side are one waiting, from the first on. One that was
// given up by who made it shows nothing of the server, and a connection that ends without
// a byte is no answer.
func TestOneWaiting(t *testing.T) {
	network := func(ctx context.Context, _, addr string) (net.Conn, error) {
		switch addr {
		case "refuses":
			return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		case "given up":
			return nil, context.Canceled
		case "cuts":
			ours, theirs := net.Pipe()
			_ = theirs.Close()
			return ours, nil
		}
		return silent(ctx, "", "")
	}
	lines := watching(t, network, func(dial stream.Dialer) {
		first, _ := dial(Named(t.Context(), "broker k:1"), "tcp", "silent")
		pass(3 * time.Second)
		second, _ := dial(Named(t.Context(), "broker k:1"), "tcp", "silent")
		pass(3 * time.Second) // told at 5, not at 8
		_, _ = first.Close(), second.Close()
	})
	if want := []string{"5 " + mute}; !slices.Equal(lines, want) {
		t.Errorf("side by side: %q, want %q", lines, want)
	}
	lines = watching(t, network, func(dial stream.Dialer) {
		for _, addr := range []string{"refuses", "refuses", "refuses", "refuses", "given up", "given up"} {
			_, _ = dial(Named(t.Context(), "broker k:1"), "tcp", addr)
			pass(time.Second)
		}
	})
	if want := []string{"5 still waiting for broker k:1: it refuses connections"}; !slices.Equal(lines, want) {
		t.Errorf("given up: %q, want %q", lines, want)
	}
	lines = watching(t, network, func(dial stream.Dialer) {
		for range 6 {
			c, _ := dial(Named(t.Context(), "broker k:1"), "tcp", "cuts")
			if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
				t.Error(n, err)
			}
			_ = c.Close()
			pass(time.Second)
		}
	})
	if want := []string{"5 " + mute}; !slices.Equal(lines, want) {
		t.Errorf("cut: %q, want %q", lines, want)
	}
}

// TestNextTroubleIsAnother: what was seen before the answer is not said of it.
func TestNextTroubleIsAnother(t *testing.T) {
	network := func(ctx context.Context, _, addr string) (net.Conn, error) {
		if addr == "nothing" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		ours, theirs := net.Pipe()
		go func() { _, _ = io.WriteString(theirs, "x") }()
		return ours, nil
	}
	lines := watching(t, network, func(dial stream.Dialer) {
		c, _ := dial(Named(t.Context(), "broker k:1"), "tcp", "answers")
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 6*time.Second) // of the bubble
		defer cancel()
		_, _ = dial(Named(ctx, "broker k:1"), "tcp", "nothing")
		_ = c.Close()
	})
	if want := []string{"5 still waiting for broker k:1: it does not take connections"}; !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
}
