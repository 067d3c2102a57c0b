package verify

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"etl/internal/pgconn"
)

// readTable reads all rows of the table.
func (l *lastRows) readTable(ctx context.Context) error {
	t := l.spec.Postgres
	p, err := pgconn.Open(ctx, t.Conn, 1, "etl verify")
	if err != nil {
		return err
	}
	defer p.Close()
	return p.With(ctx, func(c *pgconn.Conn) error {
		if err := l.columns.ask(ctx, c, t); err != nil {
			return err
		}
		l.ignored = l.columns.ignored
		for _, k := range l.spec.Key {
			if slices.Contains(l.ignored, k.Name) {
				l.opaque = "the key " + k.Name + " has the type " + l.columns.types[k.Name] + ", whose values have many forms"
			}
		}
		return c.Query(ctx, "SELECT "+l.columns.list()+" FROM "+pgconn.Ident(t.Schema, t.Table)+" t", nil, func(r pgx.Rows) error {
			var doc string
			if err := r.Scan(&doc); err != nil {
				return err
			}
			return l.takeRow(doc)
		})
	})
}

// takeRow takes a row of the table as a JSON object.
func (l *lastRows) takeRow(doc string) error {
	found, err := l.columns.found(doc)
	if err != nil {
		return err
	}
	values := map[string]string{}
	for name, v := range found {
		if string(v) != "null" {
			values[name] = string(v)
		}
	}
	parts := make([]string, len(l.spec.Key))
	for i, k := range l.spec.Key {
		parts[i] = values[k.Name]
	}
	l.got[l.join(parts)] = l.show(values)
	return nil
}

// readRedis reads all keys under the prefix.
func (l *lastRows) readRedis(ctx context.Context) error {
	r := l.spec.Redis
	c := redis.NewClient(&redis.Options{Addr: r.Address, Username: r.Username, Password: r.Password, DB: r.Database, Protocol: 2, DisableIdentity: true})
	defer func() { _ = c.Close() }() // it was only read
	it := c.Scan(ctx, 0, redisQuote(r.Prefix)+"*", 1000).Iterator()
	for it.Next(ctx) {
		key := it.Val()
		if strings.HasSuffix(key, ":etl_version") || strings.HasPrefix(key, "etl:kept:") {
			continue
		}
		values := map[string]string{}
		if r.Hash {
			all, err := c.HGetAll(ctx, key).Result()
			if err != nil {
				return err
			}
			values = all
		} else {
			v, err := c.Get(ctx, key).Result()
			if err != nil {
				return err
			}
			values[l.spec.Fields[0].Name] = v
		}
		l.got[key] = l.show(values)
	}
	return it.Err()
}

// redisQuote makes a pattern that stands for itself.
func redisQuote(s string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`).Replace(s)
}
