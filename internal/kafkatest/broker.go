package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/testservice"
)

// Tier is the name under which a missing broker is reported.
const Tier = "real-kafka"

// Broker is a [Server] for a test: what goes wrong fails the test. Where a
// method takes no testing.TB, it is the Server's.
type Broker struct {
	*Server
}

// Start gives a test a broker of its own, which it may kill. It ends with the test.
func Start(t testing.TB, cfg Config) *Broker {
	t.Helper()
	s, err := Run(t.Context(), cfg)
	if err != nil {
		unavailable(t, err)
	}
	b := &Broker{Server: s}
	t.Cleanup(func() {
		testservice.ShowLog(t, s)
		if err := s.Stop(); err != nil {
			t.Errorf("stop the broker: %v", err)
		}
	})
	return b
}

// unavailable skips only for want of a broker; one that was started and broke is a failure.
func unavailable(t testing.TB, err error) {
	t.Helper()
	if _, missing := choose(t.Context(), Config{}); missing != nil {
		testservice.Skip(t, Tier, "%v", missing)
	}
	t.Fatalf("start a broker: %v", err)
}

// patience bounds one call on a broker that is well.
const patience = 60 * time.Second

func (b *Broker) do(t testing.TB, what string, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit+patience)
	defer cancel()
	err := f(ctx)
	if errors.Is(err, testservice.ErrForeign) {
		testservice.Skip(t, Tier, "%s: %v", what, err)
	}
	if err != nil {
		t.Fatalf("%s the broker: %v", what, err)
	}
}

// Kill sends SIGKILL and returns when the broker is down.
func (b *Broker) Kill(t testing.TB) { t.Helper(); b.do(t, "kill", b.Server.Kill) }

// Restart starts a killed broker on its data and ports and returns when it answers.
func (b *Broker) Restart(t testing.TB) { t.Helper(); b.do(t, "restart", b.Server.Restart) }

// Pause freezes the broker: connections stay open and nothing answers.
func (b *Broker) Pause(t testing.TB) { t.Helper(); b.do(t, "pause", b.Server.Pause) }

// Unpause thaws it.
func (b *Broker) Unpause(t testing.TB) { t.Helper(); b.do(t, "unpause", b.Server.Unpause) }

// AwaitReady returns when the broker answers a client.
func (b *Broker) AwaitReady(t testing.TB) { t.Helper(); b.do(t, "await", b.Server.AwaitReady) }

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
	b.do(t, "create a topic on", func(ctx context.Context) error {
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
