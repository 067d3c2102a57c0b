package kafkaconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"etl/internal/peer"
	"etl/stream"
)

const (
	// dialTimeout bounds a connection attempt, handshake included: a broker that
	// does not answer in this time is treated as down.
	dialTimeout = 10 * time.Second
	// metadataMinAge is the shortest time between two looks at the cluster. kgo's 5s
	// would add that much to every move of a leader or coordinator.
	metadataMinAge = 250 * time.Millisecond
	// maxDecompressed bounds what one fetched batch may unfold to, against
	// decompression bombs; kgo's default is 1 GiB.
	maxDecompressed = 64 << 20
)

// Options returns what every client of this cluster is made with. Config has been
// checked by Problems; an error here is about files.
func (c *Config) Options() ([]kgo.Opt, error) {
	dial, err := c.dialer()
	if err != nil {
		return nil, err
	}
	id := c.ClientID
	if id == "" {
		id = "etl"
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.SeedBrokers...),
		kgo.ClientID(id),
		kgo.SoftwareNameAndVersion("etl", "1"),
		kgo.Dialer(dial),
		kgo.MetadataMinAge(metadataMinAge),
		kgo.MaxDecompressBatchBytes(maxDecompressed),
		// KIP-714 telemetry would send our numbers to whoever runs the brokers.
		kgo.DisableClientMetrics(),
	}
	if c.Log != nil {
		opts = append(opts, kgo.WithLogger(logger{c.Log}))
	}
	if c.Traffic != nil {
		opts = append(opts, kgo.WithHooks(c.Traffic))
	}
	if c.SASL != nil {
		opts = append(opts, kgo.SASL(c.SASL.mechanism()))
	}
	return opts, nil
}

// NewClient returns a client made with Options and more. Close it.
func (c *Config) NewClient(more ...kgo.Opt) (*kgo.Client, error) {
	opts, err := c.Options()
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(append(opts, more...)...)
	if err != nil {
		return nil, &stream.Error{Class: stream.BadConfig, Code: "kafka.client", Op: "create Kafka client", Err: err}
	}
	return cl, nil
}

func (s *SASL) mechanism() sasl.Mechanism {
	user, pass := s.Username, s.Password.Reveal()
	switch s.Mechanism {
	case ScramSHA256:
		return scram.Auth{User: user, Pass: pass}.AsSha256Mechanism()
	case ScramSHA512:
		return scram.Auth{User: user, Pass: pass}.AsSha512Mechanism()
	default:
		return plain.Auth{User: user, Pass: pass}.AsMechanism()
	}
}

// dialer returns the function a client opens connections with.
func (c *Config) dialer() (func(context.Context, string, string) (net.Conn, error), error) {
	base := c.Dial
	if base == nil {
		base = (&net.Dialer{}).DialContext
	}
	open := base
	if c.TLS != nil {
		tc, err := c.TLS.config()
		if err != nil {
			return nil, err
		}
		open = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return dialTLS(ctx, base, tc, network, addr)
		}
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		// Seed brokers were checked, but a broker may advertise any address.
		if c.SASL != nil && c.TLS == nil && !loopback(addr) {
			return nil, plaintextRefused(addr)
		}
		server := "broker " + addr
		ctx, cancel := context.WithTimeout(peer.Named(ctx, server), dialTimeout)
		defer cancel()
		conn, err := open(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return peer.Expect(conn, server), nil
	}, nil
}

func dialTLS(ctx context.Context, base stream.Dialer, tc *tls.Config, network, addr string) (net.Conn, error) {
	conn, err := base(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if tc.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		tc = tc.Clone()
		tc.ServerName = host
	}
	secure := tls.Client(conn, tc)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // the handshake may have closed it
		return nil, &handshakeError{addr, err}
	}
	return secure, nil
}

// handshakeError marks a failure of TLS itself, so that Explain can tell it from a
// broker that is down.
type handshakeError struct {
	addr string
	err  error
}

func (e *handshakeError) Error() string { return "TLS handshake with " + e.addr + ": " + e.err.Error() }
func (e *handshakeError) Unwrap() error { return e.err }

func (t *TLS) config() (*tls.Config, error) {
	tc := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.InsecureSkipVerify}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, tlsFile(t.CAFile, err)
		}
		tc.RootCAs = x509.NewCertPool()
		if !tc.RootCAs.AppendCertsFromPEM(pem) {
			return nil, tlsFile(t.CAFile, errors.New("no PEM certificate in it"))
		}
	}
	if t.CertFile != "" {
		if _, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile); err != nil {
			return nil, tlsFile(t.CertFile, err)
		}
		tc.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("client certificate: %w", err)
			}
			return &pair, nil
		}
	}
	return tc, nil
}

func tlsFile(name string, err error) error {
	e := stream.Error{Class: stream.BadConfig, Code: "kafka.tls", Op: "read TLS file", Subject: name, Err: err}
	return e.WithFix("name a PEM file that this process may read")
}
