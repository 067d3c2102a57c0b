package pgconn

import (
	"log/slog"

	"etl/stream"
)

// Config describes a server and how to reach it. The zero value of a field means its
// default.
type Config struct {
	// DSN is a postgres:// address or key=value pairs; empty: the PG* environment
	// variables, as psql reads them.
	DSN string
	// Password is put in the place of the DSN's.
	Password stream.Secret
	// TLS replaces the sslmode of the DSN; nil leaves it to DSN and environment.
	TLS *TLS
	// MaxConnections bounds the connections of one sink in this process; default 8, at
	// least 2: one writes while another one commits.
	MaxConnections int
	// Dial opens connections; default the system's network.
	Dial stream.Dialer
	// Log takes the server's notices; default none.
	Log *slog.Logger
}

// TLS says how connections are encrypted: always, and verified unless said otherwise.
type TLS struct {
	// CAFile holds PEM certificates to trust instead of the system's.
	CAFile string
	// CertFile and KeyFile hold the client's own certificate and key, both or none.
	CertFile, KeyFile string
	// ServerName is the name to expect in the server's certificate; default the host.
	ServerName string
	// InsecureSkipVerify accepts any certificate. For tests.
	InsecureSkipVerify bool
}

// DefaultConnections is what MaxConnections is when nobody says.
const DefaultConnections = 8

// WithDefaults returns c with its zero fields filled in.
func (c Config) WithDefaults() Config {
	if c.MaxConnections == 0 {
		c.MaxConnections = DefaultConnections
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Problems returns everything that is wrong with c as far as it can be seen without
// connecting. Files of certificates are read.
func (c *Config) Problems() (errs []error) {
	bad := func(code, fix, format string, args ...any) {
		errs = append(errs, stream.Errorf(stream.BadConfig, "postgres."+code, "", "", format, args...).WithFix("%s", fix))
	}
	if c.MaxConnections != 0 && c.MaxConnections < 2 {
		bad("connections", "write 2 or more", "max_connections %d is less than 2: one connection writes while another one commits", c.MaxConnections)
	}
	if t := c.TLS; t != nil {
		if (t.CertFile == "") != (t.KeyFile == "") {
			bad("tls", "give the one that is missing, or remove the other", "cert_file %q and key_file %q: both or none must be given", t.CertFile, t.KeyFile)
		}
		if said(c.DSN, "sslmode") {
			bad("tls", "take sslmode out of the DSN, or remove tls", "sslmode in the DSN and tls exclude each other")
		}
	}
	if len(errs) > 0 {
		return errs
	}
	if hasPassword(c.DSN) {
		errs = append(errs, stream.Errorf(stream.BadConfig, "postgres.password_in_dsn", "", "", "the DSN holds a password, and is shown in plans and logs").
			WithFix("give it as password: ${file:/path/to/secret} or ${NAME}"))
	}
	if _, err := c.parse(); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// System names the server and database, to find out whether two connections mean the
// same one. It is best effort: a host may have several names.
func (c *Config) System() string {
	p, err := c.parse()
	if err != nil {
		return ""
	}
	return address(p.ConnConfig)
}
