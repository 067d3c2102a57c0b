package kafkatest_test

import (
	"context"
	"crypto/tls"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"etl/internal/kafkatest"
)

func TestSecuredListenersAndProxy(t *testing.T) {
	b := kafkatest.Start(t, kafkatest.Config{Secure: true, Proxy: true})
	t.Run("tls", func(t *testing.T) { secured(t, b.Security()) })
	t.Run("proxy", func(t *testing.T) { proxied(t, b) })
}

func secured(t *testing.T, sec *kafkatest.Security) {
	trusting, err := sec.TLSConfig()
	if err != nil {
		t.Fatal(err)
	}
	ok := plain.Auth{User: kafkatest.User, Pass: kafkatest.Password}
	good := scram.Auth{User: kafkatest.User, Pass: kafkatest.Password}
	bad := scram.Auth{User: kafkatest.User, Pass: "wrong"}
	for _, c := range []struct {
		name, addr string
		tls        *tls.Config
		sasl       sasl.Mechanism
		works      bool
	}{
		{"tls", sec.TLSAddr, trusting, nil, true},
		{"tls, untrusted", sec.TLSAddr, &tls.Config{}, nil, false},
		{"plain", sec.SASLAddr, nil, ok.AsMechanism(), true},
		{"scram-256", sec.SASLAddr, nil, good.AsSha256Mechanism(), true},
		{"tls and scram-512", sec.SASLTLSAddr, trusting, good.AsSha512Mechanism(), true},
		{"wrong password", sec.SASLTLSAddr, trusting, bad.AsSha512Mechanism(), false},
		{"no account", sec.SASLAddr, nil, nil, false},
	} {
		opts := []kgo.Opt{}
		if c.tls != nil {
			opts = append(opts, kgo.DialTLSConfig(c.tls))
		}
		if c.sasl != nil {
			opts = append(opts, kgo.SASL(c.sasl))
		}
		if err := ask(t, c.addr, time.Minute, opts...); (err == nil) != c.works {
			t.Errorf("%s: %v, works should be %v", c.name, err, c.works)
		}
	}
}

func proxied(t *testing.T, b *kafkatest.Broker) {
	p := b.Proxy()
	must := func(what string, works bool) {
		t.Helper()
		within := time.Minute
		if !works {
			within = time.Second // one of them would never be answered
		}
		if err := ask(t, p.Addr(), within); (err == nil) != works {
			t.Errorf("%s: %v, works should be %v", what, err, works)
		}
		if err := ask(t, b.Addr(), time.Minute); err != nil {
			t.Errorf("%s, past the proxy: %v", what, err)
		}
	}
	must("plain", true)
	if err := p.Add("timeout", "downstream", map[string]any{"timeout": 0}); err != nil {
		t.Fatal(err)
	}
	must("answers lost", false)
	p.Reset()
	must("reset", true)
	p.Down()
	must("down", false)
	if err := p.Up(); err != nil {
		t.Fatal(err)
	}
	must("up", true)
}

// ask sends one request through one address. The first handshakes of a broker on a busy
// machine take seconds.
func ask(t *testing.T, addr string, within time.Duration, opts ...kgo.Opt) error {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(addr), kgo.RequestRetries(0), kgo.DialTimeout(within))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	return cl.Ping(ctx)
}
