package kafkatest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/testservice"
)

// Broker is a [Server] for a test: what goes wrong fails the test. Where a
// method takes no testing.TB, it is the Server's.
type Broker struct {
	*Server
	testservice.Tested
}

func broker(s *Server) *Broker { return &Broker{s, s.Tested()} }

// Start gives a test a broker of its own, which it may kill. It ends with the test.
func Start(t testing.TB, cfg Config) *Broker {
	t.Helper()
	return broker(testservice.Start(t, kind, func(ctx context.Context) (*Server, error) { return Run(ctx, cfg) }))
}

// Client is a client of the plain listener; it is closed with the test.
func (b *Broker) Client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := b.NewClient(opts...)
	if err != nil {
		t.Fatalf("kafka client: %v", err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// Admin is an admin client; it is closed with the test.
func (b *Broker) Admin(t testing.TB) *kadm.Client {
	t.Helper()
	return kadm.NewClient(b.Client(t))
}

// CreateTopic makes a topic and returns when it can be used. Each config is "key=value".
func (b *Broker) CreateTopic(t testing.TB, name string, partitions int, configs ...string) {
	t.Helper()
	b.Do(t, "create a topic on", func(ctx context.Context) error {
		return b.Server.CreateTopic(ctx, name, partitions, configs...)
	})
}

var topics atomic.Int64

// Topic makes a topic with a name of its own, for brokers that tests share.
func (b *Broker) Topic(t testing.TB, partitions int, configs ...string) string {
	t.Helper()
	legal := strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '-'
	}, t.Name())
	name := fmt.Sprintf("%.150s-%d-%d", legal, time.Now().UnixMilli(), topics.Add(1))
	b.CreateTopic(t, name, partitions, configs...)
	return name
}
