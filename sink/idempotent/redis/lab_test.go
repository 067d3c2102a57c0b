package redis

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"etl/internal/redistest"
	"etl/sink"
	"etl/sink/idempotent"
	"etl/sink/idempotent/storetest"
	"etl/sink/sinktest"
	"etl/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(redistest.Runner(m)) }

// lab is a part of a server's keys, and the sink in front of it.
type lab struct {
	testing.TB
	cfg    Config
	prefix string
	client *redis.Client // the test's own
}

func newLab(t testing.TB, s *redistest.Store, shape func(*Config)) *lab {
	t.Helper()
	l := &lab{TB: t, prefix: s.Prefix(), client: s.Client(t)}
	l.cfg = Config{Conn: Conn{Address: s.Addr()}, Kind: String, OnError: idempotent.DeadLetter, Encoder: func() Encoder { return l.encode }}
	if shape != nil {
		shape(&l.cfg)
	}
	return l
}

// encode writes the value of a record as the kind wants it.
func (l *lab) encode(r *stream.Record, row *Row) error {
	if r.Key != nil {
		row.Key = append(append(row.Key, l.prefix...), r.Key...)
	}
	switch {
	case r.Value == nil:
		row.Delete = true
	case l.cfg.Kind == Hash:
		row.Fields = append(row.Fields, Field{"n", r.Value}, Field{"none", nil})
	default:
		row.Value = append(row.Value, r.Value...)
	}
	return nil
}

// get returns the value of a key, "" for none.
func (l *lab) get(ctx context.Context, key string) (string, error) {
	var v string
	var err error
	if l.cfg.Kind == Hash {
		v, err = l.client.HGet(ctx, l.prefix+key, "n").Result()
	} else {
		v, err = l.client.Get(ctx, l.prefix+key).Result()
	}
	if err == redis.Nil {
		err = nil
	}
	return v, err
}

func (l *lab) read(ctx context.Context) (out []sinktest.Row, err error) {
	keys, err := l.client.Keys(ctx, l.prefix+"*").Result()
	for _, k := range keys {
		k = strings.TrimPrefix(k, l.prefix)
		if strings.HasSuffix(k, versionSuffix) || strings.HasPrefix(k, "bad") {
			continue
		}
		v, gerr := l.get(ctx, k)
		if gerr != nil {
			return nil, gerr
		}
		n, _ := strconv.Atoi(v)
		out = append(out, sinktest.Row{Key: k, N: n})
	}
	return out, err
}

func (l *lab) harness() *sinktest.Harness {
	return &sinktest.Harness{
		Job: strings.Trim(l.prefix, ":"),
		Connect: func(p sinktest.Process) sink.Connector {
			cfg := l.cfg
			cfg.Policy, cfg.Conn.Dial = p.Policy, p.World.Dial
			return New(cfg)
		},
		Read:   l.read,
		Record: storetest.Record,
	}
}

// kinds are the ways the sink can be used.
var kinds = map[string]func(*Config){
	"string":      nil,
	"hash":        func(c *Config) { c.Kind = Hash },
	"counter":     func(c *Config) { c.Kind = Counter },
	"by position": func(c *Config) { c.Guard = idempotent.Position },
}
