package redis

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"etl/stream"
)

// Preflight connects, and looks at what the server may forget. The warnings stop nothing.
func (c Config) Preflight(ctx context.Context, w stream.World) (warnings []error, err error) {
	err = c.visit(w, func(s *store) (err error) {
		warnings, err = s.check(ctx)
		return err
	})
	return warnings, err
}

// Probe tries what a run needs and a start does not try, for keys with a prefix: reading
// them, and running scripts. It compares the clocks. It changes nothing.
func (c Config) Probe(ctx context.Context, w stream.World, prefix string) (warnings, errs []error) {
	_ = c.visit(w, func(s *store) error { // every failure is a finding
		ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
		defer cancel()
		const nothing = "return 1"
		sha, err := s.client.ScriptLoad(ctx, nothing).Result()
		if err == nil {
			err = s.client.EvalSha(ctx, sha, nil).Err()
		}
		if err != nil {
			errs = append(errs, s.explain(ctx, err, "run a script"))
		}
		if err := s.client.Get(ctx, prefix+"etl:probe").Err(); err != nil && !errors.Is(err, redis.Nil) {
			errs = append(errs, s.explain(ctx, err, "read a key"))
		}
		if skew, ok := s.skew(ctx); ok && skew.Abs() > tolerableSkew {
			warnings = append(warnings, s.finding("clock", "synchronise the clocks of both machines", "its clock differs from this machine's by %v: keys that expire do so sooner or later than said", skew.Round(time.Second)))
		}
		return nil
	})
	return warnings, errs
}

// tolerableSkew is how far the clocks of server and job may be apart unmentioned.
const tolerableSkew = 10 * time.Second

// skew is how far the server's clock is ahead, if it may be asked.
func (s *store) skew(ctx context.Context) (time.Duration, bool) {
	before := s.env.Clock.Now()
	t, err := s.client.Time(ctx).Result()
	if err != nil {
		return 0, false
	}
	after := s.env.Clock.Now()
	return t.Sub(before.Add(after.Sub(before) / 2)), true
}

// visit calls fn with a connection of no attempt.
func (c Config) visit(w stream.World, fn func(*store) error) error {
	s := &store{cfg: c.WithDefaults(), env: stream.Env{World: w}}
	s.connect(w)
	defer func() { _ = s.client.Close() }() // nothing was written
	return fn(s)
}

// finding is something that a look at the server has told.
func (s *store) finding(code, fix, format string, args ...any) error {
	return stream.Errorf(stream.Environment, "redis."+code, "look at server", s.cfg.Conn.System(), format, args...).WithFix("%s", fix)
}

// check looks at the server. The warnings stop nothing.
func (s *store) check(ctx context.Context) (warnings []error, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	info, err := s.client.Info(ctx, "memory", "persistence", "replication", "cluster").Result()
	if err != nil {
		return nil, s.explain(ctx, err, "look at server")
	}
	policy, bounded := field(info, "maxmemory_policy"), field(info, "maxmemory") != "0"
	switch {
	case strings.HasPrefix(policy, "allkeys-") && bounded:
		return nil, s.finding("evicts", "set maxmemory-policy noeviction", "its maxmemory-policy is %s: it may drop what it was given", policy)
	case field(info, "role") == "slave":
		return nil, s.finding("replica", "connect to the primary", "it is a replica")
	case field(info, "cluster_enabled") == "1":
		return nil, s.finding("cluster", "use a server without cluster mode", "it is part of a cluster, which is not supported")
	case strings.HasPrefix(policy, "volatile-") && bounded:
		warnings = append(warnings, s.finding("evicts_versions", "set maxmemory-policy noeviction", "its maxmemory-policy is %s: it may drop the versions of deleted keys, so that a replay brings one back", policy))
	}
	if field(info, "aof_enabled") != "1" {
		warnings = append(warnings, s.finding("not_durable", "set appendonly yes and appendfsync always", "it keeps no log of writes: a crash of the server loses rows, and the job stops then"))
	}
	return warnings, s.load(ctx)
}
