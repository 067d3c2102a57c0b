package redis

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"etl/internal/redistest"
	"etl/stream"
)

// TestProbe: what a run needs of a server is told before it, right by right, each with its
// fix; a server that has it all is not complained of.
func TestProbe(t *testing.T) {
	s := redistest.Start(t, redistest.Config{})
	l := newLab(t, s, nil)
	admin := redis.NewClient(&redis.Options{Addr: l.cfg.Conn.Address})
	defer func() { _ = admin.Close() }()
	do := func(words ...string) {
		t.Helper()
		args := make([]any, len(words))
		for i, w := range words {
			args[i] = w
		}
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	probe := func() (codes []string) {
		t.Helper()
		warnings, err := l.cfg.Preflight(t.Context(), stream.SystemWorld(nil))
		more, errs := l.cfg.Probe(t.Context(), stream.SystemWorld(nil), "shop:")
		for _, err := range slices.Concat([]error{err}, warnings, more, errs) {
			if err == nil {
				continue
			}
			if codes = append(codes, stream.CodeOf(err)); !strings.Contains(err.Error(), " -> ") {
				t.Errorf("no fix: %v", err)
			}
		}
		return codes
	}
	want := func(when string, codes ...string) {
		t.Helper()
		if got := probe(); !slices.Equal(got, codes) {
			t.Errorf("%s: %v, want %v", when, got, codes)
		}
	}
	want("a server that has it all")
	do("CONFIG", "SET", "appendonly", "no")
	want("without a log of writes", "redis.not_durable")
	do("CONFIG", "SET", "appendonly", "yes")
	do("CONFIG", "SET", "maxmemory", "100mb")
	do("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
	want("one that drops what expires", "redis.evicts_versions")
	do("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
	want("one that drops anything", "redis.evicts")
	do("CONFIG", "SET", "maxmemory", "0")
	want("one that has no bound")

	do(strings.Fields("ACL SETUSER job on >secret ~shop:* ~etl:kept:* +info +get +set +del +hset +hdel +expire +eval +evalsha +script|load")...)
	l.cfg.Conn.Username, l.cfg.Conn.Password = "job", "secret"
	want("a user with the least rights")
	do("ACL", "SETUSER", "job", "-evalsha")
	want("one without scripts", "redis.permission")
	do("ACL", "SETUSER", "job", "+evalsha", "resetkeys", "~other:*")
	want("one without the keys", "redis.permission")
	l.cfg.Conn.Password = "wrong"
	if got := probe(); len(got) == 0 || got[0] != "redis.auth" {
		t.Errorf("a wrong password: %v", got)
	}
}
