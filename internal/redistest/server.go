package redistest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"etl/internal/testservice"
)

// Tier is the name under which a missing server is reported.
const Tier = "real-redis"

var kind = &testservice.Kind{
	Name: "Redis", Tier: Tier, Env: "ETL_TEST_REDIS", Limit: 60 * time.Second,
	Installed: func() error { _, err := binary(); return err },
	Ready:     ready,
}

// ready: a server that still loads its data is not.
func ready(ctx context.Context, url string) error {
	o, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	c := redis.NewClient(o)
	return errors.Join(c.Ping(ctx).Err(), c.Close())
}

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

// Server is a running Redis.
type Server struct{ *testservice.Server }

// Run starts a server and returns when it answers clients. The caller stops it.
func Run(ctx context.Context, cfg Config) (*Server, error) {
	s, err := kind.Run(ctx, cfg.Via, len(cfg.Settings) > 0, cfg.launch)
	if err != nil {
		return nil, err
	}
	return &Server{s}, nil
}

// URL is the server's address, redis://host:port/database.
func (s *Server) URL() string { return s.Address() }

// Addr is the server's host:port.
func (s *Server) Addr() string {
	o, err := redis.ParseURL(s.URL())
	if err != nil {
		return ""
	}
	return o.Addr
}
