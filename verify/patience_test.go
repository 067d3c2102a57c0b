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

	"github.com/twmb/franz-go/pkg/kadm"
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

// TestPatienceEndsInWhatWasSeen: a call that is cut off by the end of the patience has seen
// nothing; what was seen before it counts, and where nothing was, that is said. What is
// known of leaders is looked up anew.
func TestPatienceEndsInWhatWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{clock: stream.SystemClock{}, known: true, leaders: map[string]map[int32]int32{"t": {0: 1}}}
		calls := 0
		err := c.patiently(t.Context(), func(ctx context.Context) error {
			if calls++; calls == 1 {
				return kerr.NotLeaderForPartition
			}
			if len(c.leaders) > 0 {
				t.Error("the leaders are those of before")
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, kerr.NotLeaderForPartition) || calls != 2 {
			t.Errorf("after %d calls: %v", calls, err)
		}
		err = c.patiently(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		if stream.CodeOf(err) != "kafka.unreachable" || !strings.Contains(err.Error(), "no answer in 2m0s") {
			t.Errorf("%v", err)
		}
	})
}

// TestWhatPasses names what brokers say only for a while.
func TestWhatPasses(t *testing.T) {
	for err, want := range map[error]bool{
		&kadm.ShardErrors{}:           true,
		errNoLeader:                   true,
		kerr.UnknownTopicID:           true, // of a topic that is just made
		kerr.LeaderNotAvailable:       true,
		kerr.UnknownTopicOrPartition:  false,
		kerr.TopicAuthorizationFailed: false,
		context.Canceled:              false,
	} {
		if passing(err) != want {
			t.Errorf("%T %v: want %v", err, err, want)
		}
	}
}
