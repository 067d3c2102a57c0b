package postgres

import (
	"errors"
	"net/url"
	"strings"

	"etl/config"
	"etl/internal/pgconn"
	"etl/sink/sqltxn"
	"etl/stream"
)

// Connection are the keys of a connection.
type Connection struct {
	DSN            config.Secret `yaml:"dsn" doc:"postgres://user@host:5432/database, or key=value pairs; empty for the PG* variables, as psql reads them"`
	Password       config.Secret `yaml:"password" doc:"the password, when dsn does not hold it: a variable or ${file:/path}"`
	TLS            *TLS          `yaml:"tls" doc:"encryption, verified in full; default what dsn says, and off this machine verify-full"`
	MaxConnections int           `yaml:"max_connections" default:"8" min:"2" max:"1000" doc:"how many connections one sink may open in this process"`
	Schema         string        `yaml:"schema" default:"etl" doc:"the schema of the tables that sinks keep their books in; etl sink init makes them"`
}

// TLS are the keys of encryption.
type TLS struct {
	CAFile             string `yaml:"ca_file" doc:"PEM file of the certificates to trust instead of the system's"`
	CertFile           string `yaml:"cert_file" doc:"PEM file of the client's certificate"`
	KeyFile            string `yaml:"key_file" doc:"PEM file of its key"`
	ServerName         string `yaml:"server_name" doc:"the name to expect in the server's certificate; default the host that is dialled"`
	InsecureSkipVerify bool   `yaml:"insecure_skip_verify" doc:"accept any certificate; needs i_know: true"`
	IKnow              bool   `yaml:"i_know" doc:"says that insecure_skip_verify is meant"`
}

// Conn returns the connection as clients take it. A password in the address is taken out
// of it: the rest may be shown.
func (c *Connection) Conn() pgconn.Config {
	dsn, password := apart(c.DSN.Reveal())
	if !c.Password.IsZero() {
		password = c.Password.Reveal()
	}
	out := pgconn.Config{DSN: dsn, Password: stream.Secret(password), MaxConnections: c.MaxConnections}
	if t := c.TLS; t != nil {
		out.TLS = &pgconn.TLS{CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile, ServerName: t.ServerName, InsecureSkipVerify: t.InsecureSkipVerify}
	}
	return out
}

// apart takes the password out of an address.
func apart(dsn string) (rest, password string) {
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		return dsn, ""
	}
	u, err := url.Parse(dsn)
	if err != nil || u.User == nil {
		return dsn, ""
	}
	password, ok := u.User.Password()
	if !ok {
		return dsn, ""
	}
	u.User = url.User(u.User.Username())
	return u.String(), password
}

// connectionKeys are the keys behind the codes of internal/pgconn.
var connectionKeys = map[string]string{"postgres.dsn": "dsn", "postgres.password_in_dsn": "dsn", "postgres.tls": "tls", "postgres.connections": "max_connections"}

func checkConnection(c *config.Component, s *Connection) {
	conn := s.Conn()
	for _, err := range conn.Problems() {
		key := connectionKeys[stream.CodeOf(err)]
		if key == "tls" && s.TLS == nil { // what the address says of it
			key = "dsn"
		}
		c.Reject(key, err)
	}
	var e *stream.Error
	if errors.As(sqltxn.CheckName(s.Schema), &e) {
		c.Reject("schema", e.WithFix("use another name: one that needs quotes cannot be used"))
	}
	switch t := s.TLS; {
	case t == nil || !t.InsecureSkipVerify:
	case !t.IKnow:
		c.Problem("tls.insecure_skip_verify", "postgres.tls_insecure", "any certificate would be accepted: whoever sits between can read and change everything", "set ca_file instead, or say i_know: true")
	default:
		c.Warn("tls.insecure_skip_verify", "postgres.tls_insecure", "any certificate is accepted: whoever sits between can read and change everything", "set ca_file instead")
	}
}

// subject returns what an error is about.
func subject(err error) string {
	var e *stream.Error
	if errors.As(err, &e) {
		return e.Subject
	}
	return ""
}
