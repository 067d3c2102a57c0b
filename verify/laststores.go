package verify

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"etl/expr/decimal"
	"etl/internal/pgconn"
)

// comparable types of columns have one form for each value.
var comparableTypes = []string{"boolean", "smallint", "integer", "bigint", "numeric", "text", "character varying"}

// readTable reads all rows of the table.
func (l *lastRows) readTable(ctx context.Context) error {
	t := l.spec.Postgres
	p, err := pgconn.Open(ctx, t.Conn, 1, "etl verify")
	if err != nil {
		return err
	}
	defer p.Close()
	return p.With(ctx, func(c *pgconn.Conn) error {
		types := map[string]string{}
		err := c.Query(ctx, "SELECT attname, regexp_replace(format_type(atttypid, atttypmod), '\\(.*\\)', '') FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped",
			[]any{pgconn.Ident(t.Schema, t.Table)}, func(r pgx.Rows) error {
				var name, typ string
				err := r.Scan(&name, &typ)
				types[name] = typ
				return err
			})
		if err != nil {
			return err
		}
		var columns []string
		for _, f := range slices.Concat(l.spec.Key, l.spec.Fields) {
			columns = append(columns, pgconn.Ident(f.Name))
			switch known := slices.Contains(comparableTypes, types[f.Name]); {
			case known:
			case slices.Contains(l.spec.Key, f):
				l.opaque = "the key " + f.Name + " has the type " + types[f.Name] + ", whose values have many forms"
			default:
				l.ignored = append(l.ignored, f.Name)
			}
		}
		return c.Query(ctx, "SELECT to_jsonb(x)::text FROM (SELECT "+strings.Join(columns, ", ")+" FROM "+pgconn.Ident(t.Schema, t.Table)+") x", nil, func(r pgx.Rows) error {
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
	var raw map[string]json.RawMessage
	if err := json.Unmarshal([]byte(doc), &raw); err != nil {
		return err
	}
	values := map[string]string{}
	for name, v := range raw {
		if text := canonicalJSON(v); text != "null" {
			values[name] = text
		}
	}
	parts := make([]string, len(l.spec.Key))
	for i, k := range l.spec.Key {
		parts[i] = values[k.Name]
	}
	l.got[l.join(parts)] = l.show(values)
	return nil
}

// canonicalJSON writes a scalar as lastRows.text does.
func canonicalJSON(v json.RawMessage) string {
	if n, ok := decimal.Parse(string(v)); ok {
		return string(n.AppendCanonical(nil))
	}
	var s string
	if json.Unmarshal(v, &s) == nil {
		return quoted(s)
	}
	return string(v)
}

func quoted(s string) string {
	b, _ := json.Marshal(s) // a string can be
	return string(b)
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
