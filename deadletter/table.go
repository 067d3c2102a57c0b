package deadletter

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"etl/config"
	"etl/config/postgres"
	"etl/internal/pgconn"
	"etl/source"
	"etl/stream"
	"etl/transform"
)

// Table are the letters in a table of PostgreSQL. Rows have no order and no place that
// stays: a letter is told by what it says of itself, which a replay of the job after a
// crash says again: the record's topic, partition and offset, component, code and
// message. Rows that agree in all of these are one letter. What is read is one snapshot
// of committed rows: those of a transaction that is prepared, of the staging table and of
// the log are not there yet.
type Table struct{ From postgres.Letters }

var _ Letters = Table{}

// identity are the fields that tell a letter from others.
var identity = []string{"topic", "partition", "offset", "component", "code", "message"}

// Sink returns the sink's name.
func (t Table) Sink() string { return t.From.Sink }

// Place returns the table.
func (t Table) Place() string { return t.From.Schema + "." + t.From.Table }

// Form returns that of digests: 16 hex digits, the first half of the ID.
func (Table) Form() Form { return Form{"ID", `^[0-9a-f]{16}$`} }

// Records returns nil when the columns hold the records.
func (t Table) Records() error { return lacking(t, &t.From.Fields, "columns") }

func (Table) prefix() string { return "" }

// lacking says which fields of letters a sink does not write.
func lacking(l Letters, fields *config.LetterFields, key string) error {
	lack := fields.Lack(slices.Concat(config.LetterReasons, config.LetterRecord))
	if len(lack) == 0 {
		return nil
	}
	var add []string
	for _, name := range lack {
		add = append(add, name+": this."+name)
	}
	return stream.Errorf(stream.BadConfig, "dlq.fields", "read dead letters", l.Sink(), "%s holds no %s: the records cannot be told from it", l.Place(), strings.Join(lack, ", ")).
		WithFix("add to %s: { %s }; letters that are there already stay without", key, strings.Join(add, ", "))
}

// Read reads in the order of IDs.
func (t Table) Read(ctx context.Context, w stream.World, f func(*Found) error) (others int64, err error) {
	cfg := t.From.Conn
	cfg.Dial, cfg.Log = w.Dial, w.Log
	pool, err := pgconn.Open(ctx, cfg, 1, "etl dlq/"+t.From.Sink)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	err = pool.With(ctx, func(c *pgconn.Conn) error {
		sql, err := t.query(ctx, c)
		if err != nil {
			return err
		}
		var before ID
		return c.Query(ctx, sql, nil, func(r pgx.Rows) error {
			l, ok, err := t.found(r)
			switch {
			case err != nil:
				return err
			case !ok:
				others++
				return nil
			case l.ID == before:
				return nil
			}
			before = l.ID
			return f(l)
		})
	})
	return others, pgconn.Explain(err, "read dead letters", t.Place())
}

// found reads a row; ok is false when it is no letter.
func (t Table) found(r pgx.Rows) (l *Found, ok bool, err error) {
	var id string
	var doc []byte
	if err := r.Scan(&id, &doc); err != nil {
		return nil, false, err
	}
	letter, err := transform.ReadLetter(doc, nil)
	if err != nil {
		return nil, false, nil
	}
	l = &Found{Letter: letter, Sink: t.From.Sink, At: id[:16], Partition: letter.Partition, Offset: letter.Offset}
	if _, err := hex.Decode(l.ID[:], []byte(id)); err != nil {
		return nil, false, err
	}
	return l, true, nil
}

// query makes the statement that reads the letters: an ID and an object for each row.
func (t Table) query(ctx context.Context, c *pgconn.Conn) (string, error) {
	types, err := t.types(ctx, c)
	if err != nil {
		return "", err
	}
	fields, doc := map[string]string{}, ""
	if name := t.From.Fields.Whole; name != "" {
		doc, err = t.expression(types, name, "whole")
		for _, field := range identity {
			fields[field] = doc + "->" + pgconn.Quote(field)
		}
	} else {
		var parts []string
		for _, field := range slices.Concat(config.LetterReasons, config.LetterRecord) {
			name, there := t.From.Fields.Names[field]
			if !there {
				continue
			}
			var ferr error
			fields[field], ferr = t.expression(types, name, field)
			parts, err = append(parts, pgconn.Quote(field)+", "+fields[field]), errors.Join(err, ferr)
		}
		doc = "json_build_object(" + strings.Join(parts, ", ") + ")"
	}
	var key []string
	for _, field := range identity {
		key = append(key, fields[field])
	}
	return fmt.Sprintf(`SELECT left(encode(sha256(convert_to(json_build_array(%s)::text, 'UTF8')), 'hex'), 32) COLLATE "C", %s::text FROM %s t ORDER BY 1`,
		strings.Join(key, ", "), doc, pgconn.Ident(t.From.Schema, t.From.Table)), err
}

// types returns the types of the table's columns, below domains, by name.
func (t Table) types(ctx context.Context, c *pgconn.Conn) (map[string]string, error) {
	out := map[string]string{}
	err := c.Query(ctx, `SELECT a.attname, coalesce(b.typname, y.typname)
		FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		JOIN pg_catalog.pg_type y ON y.oid = a.atttypid LEFT JOIN pg_catalog.pg_type b ON b.oid = y.typbasetype
		WHERE n.nspname = $1 AND c.relname = $2 AND a.attnum > 0 AND NOT a.attisdropped`, []any{t.From.Schema, t.From.Table}, func(r pgx.Rows) error {
		var name, typ string
		err := r.Scan(&name, &typ)
		out[name] = typ
		return err
	})
	if err == nil && len(out) == 0 {
		err = stream.Errorf(stream.Environment, pgconn.CodeMissing, "read dead letters", t.Place(), "there is no such table").WithFix("create it, or mend table:")
	}
	return out, err
}

// expression reads a field from a column. Only types count that give back what was
// written. What a column holds beyond that, because somebody has written it, is as null:
// it must not keep all others from being read.
func (t Table) expression(types map[string]string, name, field string) (string, error) {
	typ, col := types[name], "t."+pgconn.Ident(name)
	wants := "text or varchar"
	switch field {
	case "partition", "offset", "timestamp":
		switch typ {
		case "int2", "int4", "int8":
			return col + "::bigint", nil
		case "numeric": // may hold NaN, which is above all, and what is no bigint
			return fmt.Sprintf("CASE WHEN %[1]s BETWEEN %[2]d AND %[3]d AND %[1]s = trunc(%[1]s) THEN %[1]s::bigint END", col, math.MinInt64, math.MaxInt64), nil
		}
		if wants = "bigint"; field == "timestamp" {
			wants = "bigint or timestamptz"
			if typ == "timestamp" || typ == "timestamptz" {
				return "CASE WHEN isfinite(" + col + ") THEN round(extract(epoch FROM " + col + ") * 1000)::bigint END", nil
			}
		}
	case "made":
		if wants = "boolean"; typ == "bool" {
			return col, nil
		}
	case "headers", "whole":
		if wants = "json or jsonb"; typ == "json" || typ == "jsonb" {
			return col, nil
		}
	default:
		if typ == "text" || typ == "varchar" {
			return col, nil
		}
	}
	if typ == "" {
		return "", stream.Errorf(stream.Environment, pgconn.CodeMissing, "read dead letters", t.Place(), "there is no column %q", name).WithFix("add it, or mend columns:")
	}
	return "", stream.Errorf(stream.Environment, "dlq.column", "read dead letters", t.Place(), "column %q is of type %s, from which %s cannot be read back", name, typ, field).WithFix("make it %s", wants)
}

func (t Table) source(ctx context.Context, to *reading) (source.Connector, error) {
	return newListed(ctx, t, to)
}
