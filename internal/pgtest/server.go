package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"etl/internal/testservice"
)

// Tier is the name under which a missing server is reported.
const Tier = "real-postgres"

var kind = &testservice.Kind{
	Name: "PostgreSQL", Tier: Tier, Env: "ETL_TEST_POSTGRES", Limit: 90 * time.Second,
	Installed: func() error { _, err := binaries(); return err },
	Ready:     ready,
}

func ready(ctx context.Context, dsn string) error {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	return errors.Join(c.Ping(ctx), c.Close(ctx))
}

// Config says what a server is like. The zero value is the usual one.
type Config struct {
	// Via is the way the server runs. Default: the first that works here.
	Via testservice.Via
	// Settings are further server settings, e.g. lock_timeout; they win over ours.
	Settings map[string]string
}

// arguments are the server's "-c name=value".
func (c Config) arguments() []string {
	settings := map[string]string{"max_prepared_transactions": "64"}
	for k, v := range c.Settings {
		settings[k] = v
	}
	var args []string
	for k, v := range settings {
		args = append(args, "-c", k+"="+v)
	}
	return args
}

// Server is a running PostgreSQL.
type Server struct{ *testservice.Server }

// Run starts a server and returns when it answers clients. The caller stops it.
func Run(ctx context.Context, cfg Config) (*Server, error) {
	s, err := kind.Run(ctx, cfg.Via, len(cfg.Settings) > 0, cfg.launch)
	if err != nil {
		return nil, err
	}
	return &Server{s}, nil
}

// DSN is the address of the server's "postgres" database, superuser included.
func (s *Server) DSN() string { return s.Address() }

// Addr is the server's host:port, for a proxy in front of it.
func (s *Server) Addr() string {
	u, err := url.Parse(s.DSN())
	if err != nil {
		return ""
	}
	return u.Host
}

// Quit ends the server at once, as SIGQUIT does: it writes nothing more, and recovers
// when it is started again. Only a server that runs as a process can be told so.
func (s *Server) Quit(ctx context.Context) error {
	p := s.Process()
	if p == nil {
		return fmt.Errorf("SIGQUIT to PostgreSQL: it runs as %s, not as a process", s.Via())
	}
	return p.Quit(ctx)
}

// CreateDatabase makes an empty database and returns its address. It copies the template
// that nobody can be in.
func (s *Server) CreateDatabase(ctx context.Context, name string) (string, error) {
	c, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		return "", err
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()+" TEMPLATE template0"); err != nil {
		return "", err
	}
	u, err := url.Parse(s.DSN())
	if err != nil {
		return "", fmt.Errorf("ETL_TEST_POSTGRES must be a postgres:// address: %w", err)
	}
	u.Path = "/" + strings.TrimPrefix(name, "/")
	return u.String(), nil
}
