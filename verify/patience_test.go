package verify

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"etl/internal/kafkaconn"
	"etl/stream"
)

// TestPatienceEnds: brokers that say nothing, and those that are not there, are waited for
// as long as docs/verify.md says, and the error is what was seen of them.
func TestPatienceEnds(t *testing.T) {
	for says, dial := range map[string]stream.Dialer{
		"broker k:1 accepts connections and does not answer": func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, theirs) }()
			return ours, nil
		},
		"connection refused": func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		},
		"no answer in 30s": func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			conn := kafkaconn.Config{SeedBrokers: []string{"k:1"}, Dial: dial}
			spec := Spec{Name: "p", Sources: []Source{{Name: "in", Conn: conn, Topics: []string{"t"}}}, Sinks: []Sink{{Name: "out", Inputs: []string{"in"}, Conn: conn, Topic: "u"}}}
			began := time.Now()
			_, err := Verify(t.Context(), spec, Options{Clock: stream.SystemClock{}})
			if d := time.Since(began); d != 30*time.Second {
				t.Errorf("%s: after %v", says, d)
			}
			var e *stream.Error
			if !errors.As(err, &e) || e.Code != "kafka.unreachable" || e.Fix == "" || !strings.Contains(err.Error(), says) {
				t.Errorf("%v, want %s", err, says)
			}
		})
	}
}

// TestPatienceIsLongerForWhoAnswered: a cluster that has answered is restarting, not absent.
// What does not pass is not waited for, and the end of the caller's own context is that.
func TestPatienceIsLongerForWhoAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{clock: stream.SystemClock{}}
		fails := func(with error) func(context.Context) error { return func(context.Context) error { return with } }
		took := func(ctx context.Context, f func(context.Context) error, want error) time.Duration {
			began := time.Now()
			if err := c.patiently(ctx, f); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
			return time.Since(began)
		}
		if d := took(t.Context(), fails(nil), nil); d != 0 {
			t.Error(d)
		}
		if d := took(t.Context(), fails(kerr.NotLeaderForPartition), kerr.NotLeaderForPartition); d != 2*time.Minute {
			t.Error(d)
		}
		if d := took(t.Context(), fails(kerr.TopicAuthorizationFailed), kerr.TopicAuthorizationFailed); d != 0 {
			t.Error(d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if d := took(ctx, fails(kerr.NotLeaderForPartition), context.DeadlineExceeded); d != time.Second {
			t.Error(d)
		}
	})
}
