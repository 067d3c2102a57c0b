package kafkatest

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestVisible: of two transactions on a partition the first has ended, before or behind the
// point up to which readers may read, and the second is open.
func TestVisible(t *testing.T) {
	for name, end := range map[string]kgo.TransactionEndTry{"aborted": kgo.TryAbort, "committed": kgo.TryCommit} {
		t.Run(name, func(t *testing.T) {
			c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "out"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			open := func(opts ...kgo.Opt) (*kgo.Client, error) {
				return kgo.NewClient(append(opts, kgo.SeedBrokers(c.ListenAddrs()...))...)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
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
