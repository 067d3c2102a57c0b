package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"etl/sink/idempotent"
	"etl/stream"
)

// store is the server as one subtask uses it, over a connection of its own.
type store struct {
	cfg    Config
	env    stream.Env
	client *redis.Client
	encode Encoder
	row    Row // scratch
	kept   string

	run     atomic.Pointer[string] // of the server, once one answered
	changed atomic.Bool
}

// Open connects, checks what the server may forget, and loads the scripts.
func (s *store) Open(ctx context.Context, env stream.Env) error {
	if s.cfg.Encoder == nil {
		return errors.New("no encoder is given")
	}
	s.env, s.encode = env, s.cfg.Encoder()
	s.connect(env.World)
	s.kept = keptKey(env)
	return s.check(ctx, env.Log)
}

// connect makes the client. Calls are repeated by package idempotent, not by it.
func (s *store) connect(w stream.World) {
	o := &redis.Options{Addr: s.cfg.Conn.Address, Username: s.cfg.Conn.Username, Password: s.cfg.Conn.Password.Reveal(), DB: s.cfg.Conn.Database,
		TLSConfig: s.cfg.Conn.TLS, MaxRetries: -1, PoolSize: 2, DisableIdentity: true, Protocol: 2,
		DialTimeout: s.cfg.Timeout, ReadTimeout: s.cfg.Timeout, WriteTimeout: s.cfg.Timeout, ContextTimeoutEnabled: true, OnConnect: s.connected}
	dial := s.cfg.Conn.Dial
	if dial == nil {
		dial = w.Dial
	}
	if dial != nil {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial(ctx, network, addr)
			if err != nil || s.cfg.Conn.TLS == nil {
				return c, err
			}
			return tls.Client(c, s.cfg.Conn.TLS), nil
		}
	}
	s.client = redis.NewClient(o)
}

// connected looks at which run of the server a new connection goes to.
func (s *store) connected(ctx context.Context, c *redis.Conn) error {
	info, err := c.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	run := field(info, "run_id")
	if !s.run.CompareAndSwap(nil, &run) && *s.run.Load() != run {
		s.changed.Store(true)
	}
	return nil
}

// sameRun returns an error when the server is not the one that took the rows so far: it may
// have forgotten some, and only a restart finds out which.
func (s *store) sameRun() error {
	if !s.changed.Load() {
		return nil
	}
	return stream.Errorf(stream.Restart, "redis.restarted", "write rows", s.cfg.Conn.System(), "the server was started anew, or another one took over: rows since the last checkpoint may be gone")
}

// field returns a field of what INFO answers.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// check looks at the server.
func (s *store) check(ctx context.Context, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	info, err := s.client.Info(ctx, "memory", "persistence", "replication", "cluster").Result()
	if err != nil {
		return s.explain(ctx, err, "look at server")
	}
	bad := func(code, fix, format string, args ...any) error {
		return stream.Errorf(stream.Environment, "redis."+code, "look at server", s.cfg.Conn.System(), format, args...).WithFix("%s", fix)
	}
	switch policy := field(info, "maxmemory_policy"); {
	case strings.HasPrefix(policy, "allkeys-") && field(info, "maxmemory") != "0":
		return bad("evicts", "set maxmemory-policy noeviction", "its maxmemory-policy is %s: it may drop what it was given", policy)
	case field(info, "role") == "slave":
		return bad("replica", "connect to the primary", "it is a replica")
	case field(info, "cluster_enabled") == "1":
		return bad("cluster", "use a server without cluster mode", "it is part of a cluster, which is not supported")
	}
	if field(info, "aof_enabled") != "1" {
		log.Warn("Redis keeps no log of writes: a crash of the server loses rows, and the job stops then", "server", s.cfg.Conn.System(), "fix", "appendonly yes, appendfsync always")
	}
	return s.load(ctx)
}

// load gives the server the scripts.
func (s *store) load(ctx context.Context) error {
	for _, text := range []string{script, keepScript} {
		if err := s.client.ScriptLoad(ctx, text).Err(); err != nil {
			return s.explain(ctx, err, "load script")
		}
	}
	return nil
}

// Begin returns an empty batch.
func (s *store) Begin() idempotent.Rows { return &rows{s: s, index: map[string]int{}} }

// Close closes the connection.
func (s *store) Close() error {
	if s.client == nil {
		return nil
	}
	return s.client.Close()
}

// Preflight connects and looks at the server. It changes nothing.
func (c Config) Preflight(ctx context.Context, w stream.World) error {
	s := &store{cfg: c.WithDefaults()}
	s.connect(w)
	defer func() { _ = s.client.Close() }() // nothing was written
	return s.check(ctx, w.Log)
}
