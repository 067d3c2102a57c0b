package kafka

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"etl/config"
	"etl/internal/kafkaconn"
	"etl/stream"
)

// Connection are the keys of a connection.
type Connection struct {
	SeedBrokers []string `yaml:"seed_brokers" required:"true" comma:"true" doc:"the first brokers to ask, host:port; a variable may hold several, separated by commas"`
	ClientID    string   `yaml:"client_id" default:"etl" doc:"the name that brokers show in logs and quotas"`
	TLS         *TLS     `yaml:"tls" doc:"encryption; {} for the system's certificates"`
	SASL        *SASL    `yaml:"sasl" doc:"authentication"`
}

// TLS are the keys of encryption.
type TLS struct {
	CAFile             string `yaml:"ca_file" doc:"PEM file of the certificates to trust instead of the system's"`
	CertFile           string `yaml:"cert_file" doc:"PEM file of the client's certificate; read again for every connection"`
	KeyFile            string `yaml:"key_file" doc:"PEM file of its key"`
	ServerName         string `yaml:"server_name" doc:"the name to expect in the broker's certificate; default the host that is dialled"`
	InsecureSkipVerify bool   `yaml:"insecure_skip_verify" doc:"accept any certificate; needs i_know: true"`
	IKnow              bool   `yaml:"i_know" doc:"says that insecure_skip_verify is meant"`
}

// SASL are the keys of authentication.
type SASL struct {
	Mechanism string        `yaml:"mechanism" required:"true" oneof:"PLAIN|SCRAM-SHA-256|SCRAM-SHA-512" doc:"how to authenticate"`
	Username  string        `yaml:"username" required:"true" doc:"the user"`
	Password  config.Secret `yaml:"password" required:"true" doc:"the password: a variable or ${file:/path}"`
}

// Conn returns the connection as clients take it.
func (c *Connection) Conn() kafkaconn.Config {
	out := kafkaconn.Config{SeedBrokers: c.SeedBrokers, ClientID: c.ClientID}
	if t := c.TLS; t != nil {
		out.TLS = &kafkaconn.TLS{CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile, ServerName: t.ServerName, InsecureSkipVerify: t.InsecureSkipVerify}
	}
	if s := c.SASL; s != nil {
		out.SASL = &kafkaconn.SASL{Mechanism: s.Mechanism, Username: s.Username, Password: stream.Secret(s.Password.Reveal())}
	}
	return out
}

// system names the cluster, to find out whether two components mean the same one.
func (c *Connection) system() string {
	brokers := slices.Clone(c.SeedBrokers)
	slices.Sort(brokers)
	return strings.Join(brokers, ",")
}

// connectionKeys are the keys behind the codes of kafkaconn.
var connectionKeys = map[string]string{"kafka.brokers": "seed_brokers", "kafka.tls": "tls", "kafka.sasl": "sasl", "kafka.sasl_plaintext": "sasl"}

func checkConnection(c *config.Component, s *Connection) {
	conn := s.Conn()
	errs := conn.Problems()
	if len(errs) == 0 {
		// The files of certificates are read now, so that lint finds what run would.
		if _, err := conn.Options(); err != nil {
			errs = append(errs, err)
		}
	}
	for _, err := range errs {
		if stream.CodeOf(err) != "kafka.sasl_plaintext" || c.Known("tls") {
			c.Reject(broker(c, s, place(err, connectionKeys), err), err)
		}
	}
	switch t := s.TLS; {
	case t == nil || !t.InsecureSkipVerify:
	case !t.IKnow:
		c.Problem("tls.insecure_skip_verify", "kafka.tls_insecure", "any certificate would be accepted: whoever sits between can read and change everything", "set ca_file instead, or say i_know: true")
	default:
		c.Warn("tls.insecure_skip_verify", "kafka.tls_insecure", "any certificate is accepted: whoever sits between can read and change everything", "set ca_file instead")
	}
}

// broker finds the broker that an error is about, unless a variable holds several.
func broker(c *config.Component, s *Connection, key string, err error) string {
	var e *stream.Error
	if key != "seed_brokers" || !errors.As(err, &e) || !c.Has(fmt.Sprintf("%s[%d]", key, len(s.SeedBrokers)-1)) {
		return key
	}
	i := slices.IndexFunc(s.SeedBrokers, func(b string) bool { return e.Subject == "broker "+b })
	if i < 0 {
		return key
	}
	return fmt.Sprintf("%s[%d]", key, i)
}

// place returns the key that an error is about.
func place(err error, keys map[string]string) string {
	var e *stream.Error
	if errors.As(err, &e) {
		return keys[e.Code]
	}
	return ""
}
