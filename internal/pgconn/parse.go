package pgconn

import (
	"errors"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	wire "github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"etl/stream"
)

func itoa(n int) string { return strconv.Itoa(n) }

// parse returns the connection as pgx takes it: DSN, service file and environment, with
// the password and the TLS rules of this package.
func (c *Config) parse() (*pgxpool.Config, error) {
	p, err := parseDSN(c.dsnWithTLS())
	if err != nil {
		return nil, err
	}
	if c.TLS == nil && plaintext(p.ConnConfig) && remote(p.ConnConfig) && !c.modeSaid() {
		// prefer, libpq's default, takes what a man in the middle offers.
		if p, err = parseDSN(with(c.DSN, "sslmode", "verify-full")); err != nil {
			return nil, err
		}
	}
	if t := c.TLS; t != nil && t.ServerName != "" {
		eachTLS(p.ConnConfig, func(f *wire.FallbackConfig) { f.TLSConfig.ServerName = t.ServerName })
	}
	if c.Password != "" {
		p.ConnConfig.Password = c.Password.Reveal()
	}
	return p, nil
}

func parseDSN(dsn string) (*pgxpool.Config, error) {
	p, err := pgxpool.ParseConfig(dsn) // which also knows the pool_ settings that some DSNs have
	if err == nil {
		return p, nil
	}
	var pe *wire.ParseConfigError
	code := "postgres.dsn"
	if errors.As(err, &pe) && strings.Contains(err.Error(), "TLS") {
		code = "postgres.tls"
	}
	// The message repeats the DSN; what of it could be a password is masked by pgx only
	// as far as it can be found, so none of it is shown.
	why := err.Error()
	if _, rest, ok := strings.Cut(why, "`: "); ok {
		why = rest
	}
	if strings.HasPrefix(why, "invalid port") {
		return nil, stream.Errorf(stream.BadConfig, code, "", "", "the port is no number from 1 to 65535").
			WithFix("write a port such as 5432, or leave it out")
	}
	return nil, stream.Errorf(stream.BadConfig, code, "", "", "the connection cannot be understood: %s", why).
		WithFix("write postgres://user@host:5432/database, or host=... user=... dbname=...")
}

// dsnWithTLS puts c.TLS into the DSN.
func (c *Config) dsnWithTLS() string {
	t := c.TLS
	if t == nil {
		return c.DSN
	}
	mode := "verify-full"
	if t.InsecureSkipVerify {
		mode = "require"
	}
	dsn := with(c.DSN, "sslmode", mode)
	for _, kv := range [][2]string{{"sslrootcert", t.CAFile}, {"sslcert", t.CertFile}, {"sslkey", t.KeyFile}} {
		if kv[1] != "" && !(kv[0] == "sslrootcert" && t.InsecureSkipVerify) {
			dsn = with(dsn, kv[0], kv[1])
		}
	}
	return dsn
}

// modeSaid reports whether somebody chose an sslmode. What a service file says is only
// seen by its effect: prefer there is taken for the default.
func (c *Config) modeSaid() bool { return said(c.DSN, "sslmode") || os.Getenv("PGSSLMODE") != "" }

func isURL(dsn string) bool {
	return strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://")
}

// said reports whether a DSN gives a setting.
func said(dsn, key string) bool {
	if isURL(dsn) {
		_, query, _ := strings.Cut(dsn, "?")
		v, err := url.ParseQuery(query)
		return err == nil && v.Has(key)
	}
	for _, f := range strings.Fields(dsn) {
		if k, _, ok := strings.Cut(f, "="); ok && k == key {
			return true
		}
	}
	return false
}

// hasPassword reports whether a DSN holds a password.
func hasPassword(dsn string) bool {
	if !isURL(dsn) {
		return said(dsn, "password")
	}
	u, err := url.Parse(dsn)
	if err != nil {
		_, rest, _ := strings.Cut(dsn, "://")
		return strings.Contains(rest[:strings.LastIndexByte("@"+rest, '@')], ":") // which may well have broken the address
	}
	_, has := u.User.Password()
	return has || said(dsn, "password")
}

// with adds a setting to a DSN. A later one counts.
func with(dsn, key, value string) string {
	if !isURL(dsn) {
		quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value)
		return strings.TrimSpace(dsn + " " + key + "='" + quoted + "'")
	}
	sep := "?"
	if strings.Contains(dsn, "?") {
		sep = "&"
	}
	return dsn + sep + key + "=" + url.QueryEscape(value)
}

// plaintext reports whether a connection may end up unencrypted.
func plaintext(p *pgx.ConnConfig) bool {
	if p.TLSConfig == nil {
		return true
	}
	for _, f := range p.Fallbacks {
		if f.TLSConfig == nil {
			return true
		}
	}
	return false
}

// remote reports whether any host of the connection is off this machine.
func remote(p *pgx.ConnConfig) bool {
	away := func(host string) bool {
		if strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") || strings.EqualFold(host, "localhost") {
			return false // a socket, or this machine
		}
		ip := net.ParseIP(host)
		return ip == nil || !ip.IsLoopback()
	}
	for _, f := range p.Fallbacks {
		if away(f.Host) {
			return true
		}
	}
	return away(p.Host)
}

// eachTLS calls f for every host that is reached by TLS.
func eachTLS(p *pgx.ConnConfig, f func(*wire.FallbackConfig)) {
	first := wire.FallbackConfig{Host: p.Host, Port: p.Port, TLSConfig: p.TLSConfig}
	if first.TLSConfig != nil {
		f(&first)
	}
	for _, b := range p.Fallbacks {
		if b.TLSConfig != nil {
			f(b)
		}
	}
}
