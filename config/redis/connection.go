package redis

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"

	"etl/config"
	"etl/sink/idempotent/redis"
	"etl/stream"
)

// Connection are the keys of a connection.
type Connection struct {
	Address  string        `yaml:"address" required:"true" doc:"host:port of the server"`
	Username string        `yaml:"username" doc:"the user; default the server's default user"`
	Password config.Secret `yaml:"password" doc:"the password: a variable or ${file:/path}"`
	Database int           `yaml:"database" default:"0" min:"0" max:"1000000" doc:"the number of the database"`
	TLS      *TLS          `yaml:"tls" doc:"encryption, verified in full; default none"`
}

// TLS are the keys of encryption.
type TLS struct {
	CAFile     string `yaml:"ca_file" doc:"PEM file of the certificates to trust instead of the system's"`
	CertFile   string `yaml:"cert_file" doc:"PEM file of the client's certificate"`
	KeyFile    string `yaml:"key_file" doc:"PEM file of its key"`
	ServerName string `yaml:"server_name" doc:"the name to expect in the server's certificate; default the host that is dialled"`
}

// conn returns the connection as the client takes it, or what is wrong with its files.
func (c *Connection) conn() (redis.Conn, error) {
	out := redis.Conn{Address: c.Address, Username: c.Username, Password: stream.Secret(c.Password.Reveal()), Database: c.Database}
	if c.TLS == nil {
		return out, nil
	}
	t, err := c.TLS.config(c.Address)
	out.TLS = t
	return out, err
}

func (t *TLS) config(address string) (*tls.Config, error) {
	bad := func(format string, args ...any) error {
		return stream.Errorf(stream.BadConfig, "redis.tls", "", "", format, args...).WithFix("name PEM files that this process may read, of a certificate and its key")
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if host, _, err := net.SplitHostPort(address); err == nil && out.ServerName == "" {
		out.ServerName = host
	}
	if t.CAFile != "" {
		b, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, bad("%w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(b) {
			return nil, bad("%s holds no certificate in PEM form", t.CAFile)
		}
	}
	switch {
	case (t.CertFile == "") != (t.KeyFile == ""):
		return nil, bad("cert_file %q and key_file %q: both or none must be given", t.CertFile, t.KeyFile)
	case t.CertFile != "":
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, bad("%w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// connectionKeys are the keys behind the codes of the client's configuration.
var connectionKeys = map[string]string{"redis.address": "address", "redis.database": "database", "redis.tls": "tls"}

func checkConnection(c *config.Component, s *Connection) {
	conn, err := s.conn()
	if err != nil {
		c.Reject("tls", err)
	}
	cfg := redis.Config{Conn: conn}.WithDefaults()
	for _, err := range cfg.Problems() {
		if key := connectionKeys[stream.CodeOf(err)]; key != "" {
			c.Reject(key, err)
		}
	}
	host, _, err := net.SplitHostPort(s.Address)
	if ip := net.ParseIP(host); err == nil && s.TLS == nil && c.Known("tls") && !s.Password.IsZero() && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		c.Problem("password", "redis.plaintext", "the password would go over the network unencrypted", "add tls: {}")
	}
}
