package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"etl/internal/testservice"
)

const (
	startLimit = 90 * time.Second
	password   = "etl-test"
)

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

// Server is a running PostgreSQL. Its methods are safe from any goroutine, one at a time.
type Server struct {
	via     testservice.Via
	service testservice.Service
	dsn     string
}

// Run starts a server and returns when it answers clients. The caller stops it.
func Run(ctx context.Context, cfg Config) (*Server, error) {
	via, err := choose(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if via == testservice.ViaForeign {
		s := &Server{via: via, service: testservice.Foreign{}, dsn: os.Getenv("ETL_TEST_POSTGRES")}
		return s, s.AwaitReady(ctx)
	}
	port, err := testservice.FreePort()
	if err != nil {
		return nil, err
	}
	s := &Server{via: via, dsn: fmt.Sprintf("postgres://postgres:%s@%s/postgres?sslmode=disable", password, testservice.Loopback(port))}
	if s.service, err = launch(ctx, via, cfg, port); err != nil {
		return nil, err
	}
	if err := s.AwaitReady(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func choose(ctx context.Context, cfg Config) (testservice.Via, error) {
	via, err := testservice.Choose(ctx, cfg.Via, testservice.Choices{
		Foreign: os.Getenv("ETL_TEST_POSTGRES"),
		Process: func() error { _, err := binaries(); return err },
	})
	if err == nil && via == testservice.ViaForeign && len(cfg.Settings) > 0 {
		return "", errors.New("this test needs a server with settings of its own, not the one of ETL_TEST_POSTGRES")
	}
	return via, err
}

// DSN is the address of the server's "postgres" database, superuser included.
func (s *Server) DSN() string { return s.dsn }

// Addr is the server's host:port, for a proxy in front of it.
func (s *Server) Addr() string {
	u, err := url.Parse(s.dsn)
	if err != nil {
		return ""
	}
	return u.Host
}

// Via says how the server runs.
func (s *Server) Via() testservice.Via { return s.via }

// Log is the newest part of the server's log.
func (s *Server) Log() string { return s.service.Log() }

// Kill sends SIGKILL to all of the server and returns when it is down.
func (s *Server) Kill(ctx context.Context) error { return s.service.Kill(ctx) }

// Quit ends the server at once, as SIGQUIT does: it writes nothing more, and recovers
// when it is started again. Only a server that runs as a process can be told so.
func (s *Server) Quit(ctx context.Context) error {
	p, ok := s.service.(*testservice.Process)
	if !ok {
		return fmt.Errorf("SIGQUIT to PostgreSQL: it runs as %s, not as a process", s.via)
	}
	return p.Quit(ctx)
}

// Restart starts a killed server on its data and port and returns when it answers.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.service.Restart(ctx); err != nil {
		return fmt.Errorf("restart PostgreSQL: %w", err)
	}
	return s.AwaitReady(ctx)
}

// Pause freezes the server: connections stay open and nothing answers.
func (s *Server) Pause(ctx context.Context) error { return s.service.Pause(ctx) }

// Unpause thaws it.
func (s *Server) Unpause(ctx context.Context) error { return s.service.Unpause(ctx) }

// Stop ends the server and removes its data.
func (s *Server) Stop() error { return s.service.Stop() }

// AwaitReady returns when the server answers a query.
func (s *Server) AwaitReady(ctx context.Context) error {
	return testservice.Await(ctx, s.service, startLimit, s.Ready)
}

// Ready asks the server one thing, over a connection of its own.
func (s *Server) Ready(ctx context.Context) error {
	c, err := pgx.Connect(ctx, s.dsn)
	if err != nil {
		return err
	}
	return errors.Join(c.Ping(ctx), c.Close(ctx))
}

// CreateDatabase makes an empty database and returns its address.
func (s *Server) CreateDatabase(ctx context.Context, name string) (string, error) {
	c, err := pgx.Connect(ctx, s.dsn)
	if err != nil {
		return "", err
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return "", err
	}
	u, err := url.Parse(s.dsn)
	if err != nil {
		return "", fmt.Errorf("ETL_TEST_POSTGRES must be a postgres:// address: %w", err)
	}
	u.Path = "/" + strings.TrimPrefix(name, "/")
	return u.String(), nil
}
