package kafkatest

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// inProcess is a cluster of one broker, and who opens clients of it.
func inProcess(t *testing.T, opts ...kfake.Opt) (*kfake.Cluster, Opener) {
	t.Helper()
	c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, func(opts ...kgo.Opt) (*kgo.Client, error) {
		return kgo.NewClient(append(opts, kgo.SeedBrokers(c.ListenAddrs()...))...)
	}
}

// TestVisible: of two transactions on a partition the first has ended, before or behind the
// point up to which readers may read, and the second is open.
func TestVisible(t *testing.T) {
	for name, end := range map[string]kgo.TransactionEndTry{"aborted": kgo.TryAbort, "committed": kgo.TryCommit} {
		t.Run(name, func(t *testing.T) {
			_, open := inProcess(t, kfake.SeedTopics(1, "out"))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			write := func(id, value string) *kgo.Client {
				cl, err := open(kgo.TransactionalID(id), kgo.DefaultProduceTopic("out"))
				if err == nil {
					t.Cleanup(cl.Close)
					err = cl.BeginTransaction()
				}
				if err == nil {
					err = cl.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr()
				}
				if err != nil {
					t.Fatal(err)
				}
				return cl
			}
			want := func(values ...string) {
				t.Helper()
				records, err := Visible(ctx, open, "out")
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, r := range records {
					got = append(got, string(r.Value))
				}
				if len(got) != len(values) || len(got) > 0 && got[0] != values[0] {
					t.Errorf("visible are %q, want %q", got, values)
				}
			}
			want()
			first := write("a", "x")
			want()
			write("b", "y")
			want()
			if err := first.EndTransaction(ctx, end); err != nil {
				t.Fatal(err)
			}
			if end == kgo.TryCommit {
				want("x")
			} else {
				want()
			}
		})
	}
}

// TestVisibleWithoutALeader: rows of a partition that cannot be asked at the moment are not
// taken for rows that are not there.
func TestVisibleWithoutALeader(t *testing.T) {
	c, open := inProcess(t, kfake.SeedTopics(1, "out"))
	cl, err := open(kgo.DefaultProduceTopic("out"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Err: kerr.LeaderNotAvailable}) // the first only
	if records, err := Visible(t.Context(), open, "out"); err != nil || len(records) != 1 {
		t.Errorf("%d records, %v", len(records), err)
	}
}

// TestTopicOfAFencedBroker: while its only broker is fenced a cluster makes no topics.
func TestTopicOfAFencedBroker(t *testing.T) {
	c, _ := inProcess(t)
	c.ControlKey(int16(kmsg.CreateTopics), func(r kmsg.Request) (kmsg.Response, error, bool) { // the first only
		resp := r.ResponseKind().(*kmsg.CreateTopicsResponse)
		topic := kmsg.NewCreateTopicsResponseTopic()
		topic.Topic, topic.ErrorCode = r.(*kmsg.CreateTopicsRequest).Topics[0].Topic, kerr.InvalidReplicationFactor.Code
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	t.Setenv("ETL_TEST_KAFKA", c.ListenAddrs()[0])
	t.Setenv("ETL_TEST_VIA", "")
	s, err := Run(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CreateTopic(t.Context(), "out", 1); err != nil {
		t.Error(err)
	}
}

// TestUserThatIsTakenUpLater: a user is stored before the broker lets it in.
func TestUserThatIsTakenUpLater(t *testing.T) {
	c, _ := inProcess(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", User, Password))
	c.ControlKey(int16(kmsg.SASLAuthenticate), func(r kmsg.Request) (kmsg.Response, error, bool) { // the first only
		resp := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
		return resp, nil, true
	})
	if err := (&Security{SASLAddr: c.ListenAddrs()[0]}).awaitLogin(t.Context()); err != nil {
		t.Error(err)
	}
}
