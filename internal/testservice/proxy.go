package testservice

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Proxy is a network that can be made bad: toxiproxy inside this program, in
// front of a server's second address. The test's own clients use the first.
type Proxy struct {
	proxy *toxiproxy.Proxy
}

// StartProxy forwards listen to upstream.
func StartProxy(listen, upstream string) (*Proxy, error) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	p := &Proxy{proxy: toxiproxy.NewProxy(server, listen, listen, upstream)}
	if err := p.Up(); err != nil {
		return nil, fmt.Errorf("proxy on %s: %w", listen, err)
	}
	return p, nil
}

// Addr is where clients connect to.
func (p *Proxy) Addr() string { return p.proxy.Listen }

// Add adds a toxic, with toxiproxy's own names: kind "latency", "timeout",
// "reset_peer", "bandwidth", "limit_data", ...; stream "upstream" (requests) or
// "downstream" (answers). "timeout" with {"timeout": 0} is a black hole.
func (p *Proxy) Add(kind, stream string, attributes map[string]any) error {
	b, err := json.Marshal(map[string]any{
		"name": kind + "-" + stream, "type": kind, "stream": stream, "toxicity": 1.0, "attributes": attributes,
	})
	if err != nil {
		return err
	}
	_, err = p.proxy.Toxics.AddToxicJson(bytes.NewReader(b))
	return err
}

// Reset removes all toxics.
func (p *Proxy) Reset() { p.proxy.Toxics.ResetToxics(context.Background()) }

// Down closes all connections and refuses new ones, until Up.
func (p *Proxy) Down() { p.proxy.Stop() }

// Up accepts connections again. Its port may be in use for a moment yet: a child that this
// program was beginning when the socket was closed has a copy of it until it has become
// another program (fork(2), execve(2); Go closes descriptors on exec, not on fork).
func (p *Proxy) Up() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	return p.up(func() bool {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
			return true
		}
	})
}

func (p *Proxy) up(again func() bool) error {
	for {
		if err := p.proxy.Start(); !errors.Is(err, syscall.EADDRINUSE) || !again() {
			return err
		}
	}
}

// Close ends the proxy.
func (p *Proxy) Close() { p.proxy.Stop() }
