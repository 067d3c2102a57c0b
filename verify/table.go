package verify

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"etl/expr"
	"etl/expr/jsondoc"
	"etl/internal/pgconn"
	"etl/stream"
)

// PostgresTable is a table, schema.name.
type PostgresTable struct {
	Conn          pgconn.Config
	Schema, Table string
}

func (t *PostgresTable) name() string { return t.Schema + "." + t.Table }

// tableColumns are the columns of a table that are compared.
type tableColumns struct {
	names   []string
	types   map[string]string
	ignored []string // those of names whose values have no one form
}

// ask asks the server for the types of columns.
func (cs *tableColumns) ask(ctx context.Context, c *pgconn.Conn, t *PostgresTable) error {
	cs.types, cs.ignored = map[string]string{}, nil
	// A time with fewer digits than a microsecond has is rounded by the server: it keeps its
	// modifier, and has no form.
	err := c.Query(ctx, `SELECT a.attname, CASE WHEN t.typtype = 'e' THEN 'text'
		WHEN a.atttypid IN ('timestamp'::regtype, 'timestamptz'::regtype) AND a.atttypmod BETWEEN 0 AND 5 THEN format_type(a.atttypid, a.atttypmod) ELSE regexp_replace(format_type(a.atttypid, a.atttypmod), '\(\d+(,-?\d+)?\)', '') END
		FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped`,
		[]any{pgconn.Ident(t.Schema, t.Table)}, func(r pgx.Rows) error {
			var name, typ string
			err := r.Scan(&name, &typ)
			cs.types[name] = typ
			return err
		})
	for _, name := range cs.names {
		if forms[cs.types[name]] == nil {
			cs.ignored = append(cs.ignored, name)
		}
	}
	return err
}

// list selects the columns, as members of one JSON object; a point in time without the
// zone of a session.
func (cs *tableColumns) list() string {
	var out []string
	for _, name := range cs.names {
		switch id := "t." + pgconn.Ident(name); {
		case slices.Contains(cs.ignored, name):
		case cs.types[name] == "timestamp with time zone":
			out = append(out, id+" AT TIME ZONE 'UTC' AS "+pgconn.Ident(name))
		default:
			out = append(out, id)
		}
	}
	return "(SELECT row_to_json(x)::text FROM (SELECT " + strings.Join(out, ", ") + ") x)"
}

// found returns the values of a row as list selects it, each in its form. One that the
// form does not know stays as it is, and is equal to nothing.
func (cs *tableColumns) found(doc string) (map[string][]byte, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal([]byte(doc), &raw); err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for name, v := range raw {
		f := forms[cs.types[name]]
		if cs.types[name] == "timestamp with time zone" {
			f = timeForm(localForms)
		}
		if out[name] = v; string(v) == "null" {
			continue
		}
		if text, err := f(nil, v); err == nil {
			out[name] = text
		}
	}
	return out, nil
}

// expected appends a value as the column of a name would hold it.
func (cs *tableColumns) expected(dst []byte, name string, v expr.Value) ([]byte, error) {
	if v.IsNull() {
		return append(dst, "null"...), nil
	}
	return forms[cs.types[name]](dst, v.AppendJSON(nil))
}

// object appends a row: the columns in their order, without the ignored ones.
func (cs *tableColumns) object(dst []byte, value func(dst []byte, i int) ([]byte, error)) (out []byte, err error) {
	dst = append(dst, '{')
	first := true
	for i, name := range cs.names {
		if slices.Contains(cs.ignored, name) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		if dst, err = value(append(jsondoc.AppendString(dst, name), ':'), i); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

// unreadable explains an error, and says more where the role may write the table and not
// read it.
func unreadable(err error, t *PostgresTable) error {
	if err = pgconn.Explain(err, "read", t.name()); stream.CodeOf(err) == pgconn.CodePermission {
		return stream.Errorf(stream.Environment, pgconn.CodePermission, "verify", t.name(), "%w", err).
			WithFix("a job that appends needs no right to read: GRANT SELECT ON %s to its role for the recount, or let the connection name another role meanwhile", pgconn.Ident(t.Schema, t.Table))
	}
	return err
}
