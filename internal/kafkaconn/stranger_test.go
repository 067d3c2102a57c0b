package kafkaconn

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/peer"
	"etl/internal/peer/peertest"
	"etl/stream"
)

func speaksHTTP(c net.Conn) {
	_, _ = bufio.NewReader(c).Peek(1)
	_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
	_ = c.(*net.TCPConn).CloseWrite()
}

// speaksTLS answers like a TLS server that gets something else: an alert.
func speaksTLS(c net.Conn) {
	_, _ = bufio.NewReader(c).Peek(1)
	_, _ = io.WriteString(c, "\x15\x03\x01\x00\x02\x02\x46")
}

// TestStrangers: what stands behind an address instead of a broker is named, with what to
// do, at the first attempt where it cannot get better.
func TestStrangers(t *testing.T) {
	silent := func(net.Conn) {}
	for _, tc := range []struct {
		name      string
		serve     func(net.Conn)
		tls       *TLS
		class     stream.Class
		code      string
		says, fix string
	}{
		{"HTTP", speaksHTTP, nil, stream.Environment, "kafka.wrong_port", "this port speaks HTTP", "name the port of a Kafka listener"},
		{"HTTP instead of TLS", speaksHTTP, &TLS{}, stream.Environment, "kafka.wrong_port", "this port speaks HTTP", "name the port of a Kafka listener"},
		{"TLS", speaksTLS, nil, stream.Environment, "kafka.tls", "this port speaks TLS", "add tls"},
		{"nothing", silent, nil, stream.Retry, "kafka.unreachable", "accepts connections and does not answer", "whether the broker hangs"},
		{"no TLS", func(c net.Conn) { _ = c.Close() }, &TLS{}, stream.Retry, "kafka.tls", "handshake", "remove tls"},
	} {
		addr := peertest.Listen(t, tc.serve)
		wait := time.Minute // for whoever says something
		if tc.name == "nothing" {
			wait = time.Second // its request has to go out in this time
		}
		cl := client(t, Config{SeedBrokers: []string{addr}, TLS: tc.tls}, kgo.RetryTimeout(time.Millisecond), kgo.RequestTimeoutOverhead(wait))
		_, err := ReadLimits(t.Context(), cl)
		var e *stream.Error
		if !errors.As(err, &e) || e.Class != tc.class || e.Code != tc.code || !strings.Contains(e.Err.Error(), tc.says) || !strings.Contains(e.Fix, tc.fix) {
			t.Errorf("%s: %v (%v, %s)", tc.name, err, stream.ClassOf(err), stream.CodeOf(err))
		}
		if !strings.Contains(fmt.Sprint(err), addr) || strings.Contains(fmt.Sprint(err), "\n") {
			t.Errorf("%s: no address, or not one line: %v", tc.name, err)
		}
	}
}

// TestSilentHandshake: a listener that never answers a handshake. The ten seconds of a
// dialler are not waited for.
func TestSilentHandshake(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := dialTLS(ctx, func(context.Context, string, string) (net.Conn, error) { return ours, nil }, &tls.Config{MinVersion: tls.VersionTLS12}, "tcp", "k:1")
	e := &stream.Error{}
	if err = Explain(err, "ask"); !errors.As(err, &e) || e.Code != "kafka.tls" || e.Class != stream.Retry ||
		!strings.Contains(err.Error(), "broker k:1 accepts connections and does not answer") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}

// TestDialersNameTheBroker: who watches the network can say which broker it is.
func TestDialersNameTheBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		w := peer.NewWatch(stream.SystemClock{}, func(x peer.Wait) { told = append(told, x.String()) })
		cfg := Config{SeedBrokers: []string{"k:1"}, Dial: w.Dialer(func(context.Context, string, string) (net.Conn, error) {
			ours, _ := net.Pipe()
			return ours, nil
		})}
		dial, err := cfg.dialer()
		if err != nil {
			t.Fatal(err)
		}
		c, err := dial(t.Context(), "tcp", "k:1")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		w.Run(ctx)
		if len(told) != 1 || told[0] != "still waiting for broker k:1: it accepts connections and does not answer" {
			t.Errorf("%q", told)
		}
	})
}
