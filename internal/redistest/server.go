package redistest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"etl/internal/testservice"
)

const startLimit = 60 * time.Second

// Config says what a server is like. The zero value is the usual one.
type Config struct {
	// Via is the way the server runs. Default: the first that works here.
	Via testservice.Via
	// Settings are further server settings, e.g. appendonly; they win over ours.
	Settings map[string]string
}

// arguments are the server's "--name value".
func (c Config) arguments() (args []string) {
	settings := map[string]string{"appendonly": "yes", "appendfsync": "always", "save": ""}
	maps.Copy(settings, c.Settings)
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "--"+k, settings[k])
	}
	return args
}

// Server is a running Redis. Its methods are safe from any goroutine, one at a time.
type Server struct {
	via     testservice.Via
	service testservice.Service
	url     string
}

// Run starts a server and returns when it answers clients. The caller stops it.
func Run(ctx context.Context, cfg Config) (*Server, error) {
	via, err := choose(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if via == testservice.ViaForeign {
		s := &Server{via: via, service: testservice.Foreign{}, url: os.Getenv("ETL_TEST_REDIS")}
		return s, s.AwaitReady(ctx)
	}
	port, err := testservice.FreePort()
	if err != nil {
		return nil, err
	}
	s := &Server{via: via, url: "redis://" + testservice.Loopback(port) + "/0"}
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
		Foreign: os.Getenv("ETL_TEST_REDIS"),
		Process: func() error { _, err := binary(); return err },
	})
	if err == nil && via == testservice.ViaForeign && len(cfg.Settings) > 0 {
		return "", errors.New("this test needs a server with settings of its own, not the one of ETL_TEST_REDIS")
	}
	return via, err
}

// URL is the server's address, redis://host:port/database.
func (s *Server) URL() string { return s.url }

// Addr is the server's host:port.
func (s *Server) Addr() string {
	o, err := redis.ParseURL(s.url)
	if err != nil {
		return ""
	}
	return o.Addr
}

// Via says how the server runs.
func (s *Server) Via() testservice.Via { return s.via }

// Log is the newest part of the server's log.
func (s *Server) Log() string { return s.service.Log() }

// Kill sends SIGKILL and returns when the server is down.
func (s *Server) Kill(ctx context.Context) error { return s.service.Kill(ctx) }

// Restart starts a killed server on its data and port and returns when it answers.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.service.Restart(ctx); err != nil {
		return fmt.Errorf("restart Redis: %w", err)
	}
	return s.AwaitReady(ctx)
}

// Pause freezes the server: connections stay open and nothing answers.
func (s *Server) Pause(ctx context.Context) error { return s.service.Pause(ctx) }

// Unpause thaws it.
func (s *Server) Unpause(ctx context.Context) error { return s.service.Unpause(ctx) }

// Stop ends the server and removes its data.
func (s *Server) Stop() error { return s.service.Stop() }

// AwaitReady returns when the server answers.
func (s *Server) AwaitReady(ctx context.Context) error {
	return testservice.Await(ctx, s.service, startLimit, s.Ready)
}

// Ready asks the server one thing, over a connection of its own. A server that still loads
// its data is not ready.
func (s *Server) Ready(ctx context.Context) error {
	o, err := redis.ParseURL(s.url)
	if err != nil {
		return err
	}
	c := redis.NewClient(o)
	return errors.Join(c.Ping(ctx).Err(), c.Close())
}
