package kafkaconn

import (
	"log/slog"
	"net"
	"strconv"
	"strings"

	"etl/stream"
)

// Config describes a Kafka cluster and how to reach it. The zero value of a field
// means its default.
type Config struct {
	// SeedBrokers are the first brokers to ask, "host:port". At least one.
	SeedBrokers []string
	// TLS encrypts connections; nil means plaintext.
	TLS *TLS
	// SASL authenticates; nil means no authentication, or by TLS certificate.
	SASL *SASL
	// ClientID is the name brokers show in logs and quotas; default "etl".
	ClientID string
	// Dial opens connections; default the system's network.
	Dial stream.Dialer
	// Log takes what the client does in the background; default none. What a
	// caller can act on is returned as an error instead.
	Log *slog.Logger
	// Traffic counts what the clients do; nil for nobody.
	Traffic *Traffic
}

// TLS says how connections are encrypted. TLS 1.2 is the oldest version used.
type TLS struct {
	// CAFile holds PEM certificates to trust instead of the system's.
	CAFile string
	// CertFile and KeyFile hold the client's own certificate and key in PEM, both
	// or none. They are read again for every connection, so that renewed ones take
	// effect without a restart.
	CertFile, KeyFile string
	// ServerName is the name to expect in the broker's certificate; default the
	// host that is dialled.
	ServerName string
	// InsecureSkipVerify accepts any certificate: whoever sits on the path can read
	// and change everything. For tests.
	InsecureSkipVerify bool
}

// SASL says how to authenticate.
type SASL struct {
	// Mechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
	Mechanism string
	Username  string
	Password  stream.Secret
}

// The SASL mechanisms.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
)

// Problems returns everything that is wrong with c, all at once.
func (c *Config) Problems() (errs []error) {
	bad := func(code, subject, fix, format string, args ...any) {
		errs = append(errs, stream.Errorf(stream.BadConfig, "kafka."+code, "", subject, format, args...).WithFix("%s", fix))
	}
	if len(c.SeedBrokers) == 0 {
		bad("brokers", "brokers", "name one or more brokers, as host:port", "no seed broker is given")
	}
	for _, b := range c.SeedBrokers {
		host, port, err := net.SplitHostPort(b)
		switch n, perr := strconv.ParseUint(port, 10, 16); {
		case err != nil || host == "" || port == "":
			bad("brokers", "broker "+b, "write host:port, such as kafka-1:9092", "is not of the form host:port")
		case perr != nil || n == 0:
			bad("brokers", "broker "+b, "write the port as a number from 1 to 65535, such as kafka-1:9092", "%q is not a port", port)
		}
	}
	if t := c.TLS; t != nil && (t.CertFile == "") != (t.KeyFile == "") {
		bad("tls", "tls", "give the one that is missing, or remove the other", "cert_file %q and key_file %q: both or none must be given", t.CertFile, t.KeyFile)
	}
	if c.SASL != nil {
		errs = append(errs, c.saslProblems()...)
	}
	return errs
}

func (c *Config) saslProblems() (errs []error) {
	bad := func(code, subject, fix, format string, args ...any) {
		errs = append(errs, stream.Errorf(stream.BadConfig, "kafka."+code, "", subject, format, args...).WithFix("%s", fix))
	}
	switch c.SASL.Mechanism {
	case Plain, ScramSHA256, ScramSHA512:
	default:
		bad("sasl", "sasl mechanism "+c.SASL.Mechanism, "write one of them", "is not %s, %s or %s", Plain, ScramSHA256, ScramSHA512)
	}
	if c.SASL.Username == "" || c.SASL.Password == "" {
		bad("sasl", "sasl", "give both", "username and password must be given")
	}
	if c.TLS == nil {
		for _, b := range c.SeedBrokers {
			if !loopback(b) {
				errs = append(errs, plaintextRefused(b))
			}
		}
	}
	return errs
}

func plaintextRefused(broker string) error {
	return stream.Errorf(stream.BadConfig, "kafka.sasl_plaintext", "", "broker "+broker,
		"the password would cross the network unencrypted").WithFix("add tls, or use a broker on this machine")
}

// loopback reports whether an address certainly stays on this machine.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
