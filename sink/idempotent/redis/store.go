package redis

import (
	"context"
	"crypto/tls"
	"errors"
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
	warnings, err := s.check(ctx)
	for _, w := range warnings {
		env.Log.Warn("Redis may forget rows", "server", s.cfg.Conn.System(), "warning", w)
	}
	return err
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

// connected looks at which run of the server a new connection goes to, and refuses another
// one: a note that an attempt leaves there would hide from the next what was forgotten.
func (s *store) connected(ctx context.Context, c *redis.Conn) error {
	info, err := c.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	run := field(info, "run_id")
	if !s.run.CompareAndSwap(nil, &run) && *s.run.Load() != run {
		s.changed.Store(true)
	}
	return s.sameRun()
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
