package kafkaconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"etl/internal/kafkatest"
	"etl/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(kafkatest.Runner(m)) }

func cluster(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func client(t *testing.T, cfg Config, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	if errs := cfg.Problems(); len(errs) > 0 {
		t.Fatal(errs)
	}
	cl, err := cfg.NewClient(more...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func TestProblems(t *testing.T) {
	sasl := &SASL{Mechanism: Plain, Username: "u", Password: "p"}
	for _, tc := range []struct {
		name string
		cfg  Config
		want []string
	}{
		{"good", Config{SeedBrokers: []string{"k:9092"}}, nil},
		{"none", Config{}, []string{"kafka.brokers"}},
		{"no port", Config{SeedBrokers: []string{"k"}}, []string{"kafka.brokers"}},
		{"ports that are none", Config{SeedBrokers: []string{"k:0", "k:65536", "k:kafka", "[::1]:65535"}}, []string{"kafka.brokers", "kafka.brokers", "kafka.brokers"}},
		{"half a pair", Config{SeedBrokers: []string{"k:1"}, TLS: &TLS{CertFile: "c"}}, []string{"kafka.tls"}},
		{"mechanism", Config{SeedBrokers: []string{"k:1"}, TLS: &TLS{}, SASL: &SASL{Mechanism: "GSSAPI", Username: "u", Password: "p"}}, []string{"kafka.sasl"}},
		{"no password", Config{SeedBrokers: []string{"k:1"}, TLS: &TLS{}, SASL: &SASL{Mechanism: Plain, Username: "u"}}, []string{"kafka.sasl"}},
		{"plaintext", Config{SeedBrokers: []string{"k:1"}, SASL: sasl}, []string{"kafka.sasl_plaintext"}},
		{"plaintext at home", Config{SeedBrokers: []string{"127.0.0.1:1", "localhost:2", "[::1]:3"}, SASL: sasl}, nil},
		{"all at once", Config{SASL: &SASL{}}, []string{"kafka.brokers", "kafka.sasl", "kafka.sasl"}},
	} {
		var got []string
		for _, err := range tc.cfg.Problems() {
			got = append(got, stream.CodeOf(err))
			if stream.ClassOf(err) != stream.BadConfig {
				t.Errorf("%s: class %v", tc.name, stream.ClassOf(err))
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestSecretNeverPrints(t *testing.T) {
	const canary = "canary-4711"
	cfg := Config{SASL: &SASL{Mechanism: Plain, Username: "u", Password: canary}}
	js, err := json.Marshal(cfg.SASL)
	if err != nil {
		t.Fatal(err)
	}
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "sasl", cfg.SASL, "password", cfg.SASL.Password)
	for _, s := range []string{fmt.Sprintf("%v %+v %#v %s %q", *cfg.SASL, *cfg.SASL, *cfg.SASL, cfg.SASL.Password, cfg.SASL.Password), string(js), logged.String()} {
		if strings.Contains(s, canary) {
			t.Errorf("the password is in %s", s)
		}
	}
	if cfg.SASL.Password.Reveal() != canary {
		t.Error("the password is lost")
	}
}

func TestAdvertisedBrokerGetsNoPasswordInPlaintext(t *testing.T) {
	cfg := Config{SeedBrokers: []string{"127.0.0.1:1"}, SASL: &SASL{Mechanism: Plain, Username: "u", Password: "p"}}
	dial, err := cfg.dialer()
	if err != nil {
		t.Fatal(err)
	}
	if _, err = dial(t.Context(), "tcp", "10.0.0.1:9092"); stream.CodeOf(err) != "kafka.sasl_plaintext" {
		t.Errorf("dial: %v", err)
	}
}

func TestSASL(t *testing.T) {
	c := cluster(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "p"), kfake.Superuser("SCRAM-SHA-256", "u2", "p"), kfake.Superuser("SCRAM-SHA-512", "u5", "p"))
	for _, tc := range []struct {
		sasl *SASL
		code string
	}{
		{&SASL{Plain, "u", "p"}, ""},
		{&SASL{ScramSHA256, "u2", "p"}, ""},
		{&SASL{ScramSHA512, "u5", "p"}, ""},
		// kfake cuts the connection on a wrong password; real_test.go sees the code.
		{&SASL{Plain, "u", "wrong"}, "kafka.unreachable"},
		{nil, "kafka.sasl"},
	} {
		cl := client(t, Config{SeedBrokers: c.ListenAddrs(), SASL: tc.sasl}, kgo.RetryTimeout(time.Second), kgo.RequestRetries(1))
		_, err := TransactionVersion(t.Context(), cl)
		if err == nil {
			_, err = ReadLimits(t.Context(), cl)
		}
		if stream.CodeOf(err) != tc.code {
			t.Errorf("%v: %v, want code %q", tc.sasl, err, tc.code)
		}
	}
}

func TestLimits(t *testing.T) {
	c := cluster(t, kfake.SeedTopics(3, "t"), kfake.BrokerConfigs(map[string]string{
		"transaction.max.timeout.ms": "60000", "transactional.id.expiration.ms": "3600000", "offsets.retention.minutes": "5"}))
	cl := client(t, Config{SeedBrokers: c.ListenAddrs()})
	l, err := ReadLimits(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Limits{Known: true, TransactionTimeout: time.Minute, IDExpiration: time.Hour, OffsetsRetention: 5 * time.Minute}); l != want {
		t.Errorf("%+v, want %+v", l, want)
	}
	if v, err := TransactionVersion(t.Context(), cl); v != 2 || err != nil {
		t.Errorf("transaction.version %d, %v", v, err)
	}
	infos, err := ReadTopics(t.Context(), cl, "t")
	if err != nil || infos[0].Partitions != 3 || infos[0].ID == [16]byte{} || infos[0].MaxMessageBytes < 1<<19 {
		t.Errorf("%+v %v", infos, err)
	}
	_, err = ReadTopics(t.Context(), cl, "missing")
	if stream.CodeOf(err) != "kafka.topic_missing" || !strings.Contains(err.Error(), "topic missing") {
		t.Errorf("missing topic: %v", err)
	}
}

func TestUnreachable(t *testing.T) {
	cl := client(t, Config{SeedBrokers: []string{"127.0.0.1:1"}}, kgo.RetryTimeout(time.Second), kgo.RequestRetries(1))
	_, err := ReadLimits(t.Context(), cl)
	if stream.CodeOf(err) != "kafka.unreachable" || stream.ClassOf(err) != stream.Retry {
		t.Errorf("%v", err)
	}
}

func TestPlainServerAskedForTLS(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			c.Close() // what a plaintext listener does with a handshake
		}
	}()
	cl := client(t, Config{SeedBrokers: []string{l.Addr().String()}, TLS: &TLS{}}, kgo.RetryTimeout(time.Second), kgo.RequestRetries(1))
	if _, err := ReadLimits(t.Context(), cl); stream.CodeOf(err) != "kafka.tls" {
		t.Errorf("%v", err)
	}
}

func TestBadTLSFiles(t *testing.T) {
	empty := t.TempDir() + "/empty.pem"
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tl := range []*TLS{{CAFile: "/nowhere"}, {CAFile: empty}, {CertFile: empty, KeyFile: empty}} {
		if _, err := (&Config{SeedBrokers: []string{"k:1"}, TLS: tl}).Options(); stream.CodeOf(err) != "kafka.tls" {
			t.Errorf("%+v: %v", tl, err)
		}
	}
}

func TestExplain(t *testing.T) {
	write := Access{Kind: Topic, Name: "out", Operation: "WRITE"}
	describe := Access{Kind: TransactionalID, Name: "etl.j", Operation: "DESCRIBE"}
	for _, tc := range []struct {
		err   error
		class stream.Class
		code  string
		says  string
	}{
		{kerr.TopicAuthorizationFailed, stream.Environment, "kafka.acl", "WRITE on topic out"},
		{kerr.TransactionalIDAuthorizationFailed, stream.Environment, "kafka.acl", "DESCRIBE on transactional id etl.j"},
		{kerr.GroupAuthorizationFailed, stream.Environment, "kafka.acl", "use the group"},
		{fmt.Errorf("wrapped: %w", kerr.CoordinatorNotAvailable), stream.Environment, "kafka.coordinator", "transaction.state.log.min.isr"},
		{kerr.InvalidTransactionTimeout, stream.BadConfig, "kafka.timeout_above_broker_maximum", "transaction.max.timeout.ms"},
		{kerr.UnknownTopicOrPartition, stream.Environment, "kafka.topic_missing", "topic out"},
		{kerr.NotLeaderForPartition, stream.Retry, "kafka.retry", ""},
		{io.EOF, stream.Retry, "kafka.unreachable", ""},
		{fmt.Errorf("topic out: %w", io.ErrClosedPipe), stream.Retry, "kafka.unreachable", ""},
		// Closed at once: a wrong setting, or a proxy in front of a broker that restarts.
		{new(kgo.ErrFirstReadEOF), stream.Retry, "kafka.tls", "if it stays so"},
		{&handshakeError{"k:1", io.EOF}, stream.Retry, "kafka.tls", "handshake"},
		{&handshakeError{"k:1", &net.OpError{Op: "remote error", Err: tls.AlertError(42)}}, stream.Environment, "kafka.tls", "bad certificate"},
		{&handshakeError{"k:1", x509.HostnameError{Certificate: &x509.Certificate{}, Host: "k"}}, stream.Environment, "kafka.tls", "server_name"},
		{errors.New("strange"), stream.Failed, "kafka.failed", "strange"},
	} {
		err := Explain(tc.err, "do", write, describe)
		if stream.ClassOf(err) != tc.class || stream.CodeOf(err) != tc.code || !strings.Contains(err.Error(), tc.says) || !errors.Is(err, tc.err) {
			t.Errorf("%v: %v (%v, %s)", tc.err, err, stream.ClassOf(err), stream.CodeOf(err))
		}
		if again := Explain(err, "more"); again != err {
			t.Errorf("explained twice: %v", again)
		}
	}
	if Explain(nil, "x") != nil || Explain(context.Canceled, "x") != context.Canceled {
		t.Error("nil and the end of a context must come back as they are")
	}
}

func TestLogLevels(t *testing.T) {
	var b strings.Builder
	l := logger{slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelInfo}))}
	if l.Level() != kgo.LogLevelWarn {
		t.Errorf("level %v", l.Level())
	}
	l.Log(kgo.LogLevelInfo, "quiet")
	l.Log(kgo.LogLevelError, "loud", "k", 1)
	if s := b.String(); strings.Contains(s, "quiet") || !strings.Contains(s, "level=WARN") {
		t.Error(s)
	}
	if (logger{slog.New(slog.DiscardHandler)}).Level() != kgo.LogLevelNone {
		t.Error("nobody listens")
	}
}
