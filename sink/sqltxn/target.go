package sqltxn

import (
	"fmt"
	"slices"
	"strings"

	"etl/internal/pgconn"
	"etl/stream"
)

// Mode is how rows meet those that are there.
type Mode string

// The modes.
const (
	// Append adds every row.
	Append Mode = "append"
	// Upsert keeps the last row per key.
	Upsert Mode = "upsert"
	// UpsertDelete does, too, and a null value deletes the row of its key.
	UpsertDelete Mode = "upsert_delete"
)

// Target is a table with the columns that a sink writes and the way it does.
type Target struct {
	Table *Table
	Mode  Mode
	// Columns are those that are written, the key's first, in the order of the key.
	Columns []*Column
	// Key is the number of columns of the key.
	Key int
	// Guard, when it is not nil, keeps an upsert from replacing a row by an older one.
	Guard *Guard
}

// Guard names two of a target's columns that order the rows of a key. A row is older than
// another one when their scopes are equal and its version is less; rows of different
// scopes, or without a scope, have no order, and the one that comes last stays.
type Guard struct{ Version, Scope string }

// KeyFirst returns the columns in the order in which rows hold them: those of the key
// first, in its order, then the others in theirs.
func KeyFirst(columns, key []string) []string {
	out := slices.Clone(key)
	for _, c := range columns {
		if !slices.Contains(key, c) {
			out = append(out, c)
		}
	}
	return out
}

// NewTarget checks a sink's columns and key against the table, and returns everything
// that does not fit, each with the column it is about.
func NewTarget(t *Table, mode Mode, columns, key []string) (*Target, []error) {
	g := &Target{Table: t, Mode: mode, Key: len(key)}
	var errs []error
	bad := func(code, subject, fix, format string, args ...any) {
		e := stream.Errorf(stream.Environment, "postgres."+code, "", subject, format, args...)
		errs = append(errs, e.WithFix("%s", fix))
	}
	switch {
	case t.Kind != "r" && t.Kind != "p":
		bad("table", t.Schema+"."+t.Name, "write to a table", "it is no table")
	case !t.Logged:
		bad("unlogged", t.Schema+"."+t.Name, "ALTER TABLE "+t.String()+" SET LOGGED", "it is not logged: a crash of the server would empty it")
	}
	for _, name := range KeyFirst(columns, key) {
		c := t.Column(name)
		switch {
		case c == nil:
			bad("column", name, near(name, t), "the table %s.%s has no such column", t.Schema, t.Name)
			continue
		case slices.Contains(strings.Split(stageColumns, ", "), name):
			bad("column", name, "rename it", "the name is one of those that staging tables use")
			continue
		case c.Generated:
			bad("column", name, "leave it out", "the table makes its values by itself")
		case c.Type == nil:
			bad("type", name, "use one of "+supportedTypes, "nothing can be written for the type %s", c.Declared)
			continue
		}
		g.Columns = append(g.Columns, c)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return g, append(errs, g.checkKey(key, columns)...)
}

const supportedTypes = "bool, int2, int4, int8, float4, float8, numeric, text, varchar, char, bytea, uuid, json, jsonb, timestamptz, timestamp, date, time, enums, and arrays and domains of these"

func near(name string, t *Table) string {
	var names []string
	for _, c := range t.Columns {
		names = append(names, c.Name)
	}
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return "write " + n
		}
	}
	return "its columns are " + strings.Join(names, ", ")
}

func (g *Target) checkKey(key, columns []string) (errs []error) {
	bad := func(code, subject, fix, format string, args ...any) {
		errs = append(errs, stream.Errorf(stream.Environment, "postgres."+code, "", subject, format, args...).WithFix("%s", fix))
	}
	if m := g.Table.missing(columns); len(m) > 0 {
		bad("column", strings.Join(m, ", "), "add them to columns:, or give them a default", "a value must be given, and none is")
	}
	for _, c := range g.Columns[:g.Key] {
		err := c.Type.keyable()
		if err == nil && c.Loose {
			err = badValue("its collation is not deterministic: it calls texts equal that differ")
		}
		if err != nil {
			bad("key", c.Name, "use another column as key", "%w", err)
		}
	}
	if g.Mode != Append && !slices.ContainsFunc(g.Table.Uniques, func(u Unique) bool { return u.Plain && u.covers(key) }) {
		list := quoted(g.Columns[:g.Key])
		bad("no_unique_key", strings.Join(key, ", "), fmt.Sprintf("ALTER TABLE %s ADD UNIQUE (%s), or mend key:", g.Table, list),
			"the table has no unique index on exactly these columns (not partial, not deferrable), which mode %s needs", g.Mode)
	}
	return errs
}

// Conflicting returns the unique indexes on other columns than the key's: rows of two
// keys can meet there. Overlaps says that rows of two epochs, or of two subtasks, can.
func (g *Target) Conflicting() (out []string) {
	for _, u := range g.Table.Uniques {
		if !u.Plain || !u.covers(names(g.Columns[:g.Key])) {
			out = append(out, u.Name)
		}
	}
	return out
}

func names(cs []*Column) (out []string) {
	for _, c := range cs {
		out = append(out, c.Name)
	}
	return out
}

// quoted lists columns for a statement, with a prefix before each.
func quoted(cs []*Column, prefix ...string) string {
	p := strings.Join(prefix, "")
	parts := make([]string, len(cs))
	for i, c := range cs {
		parts[i] = p + pgconn.Ident(c.Name)
	}
	return strings.Join(parts, ", ")
}

// conflict is the end of an upsert.
func (g *Target) conflict() string {
	if g.Mode == Append {
		return ""
	}
	s := " ON CONFLICT (" + quoted(g.Columns[:g.Key]) + ") DO "
	if g.Key == len(g.Columns) {
		return s + "NOTHING"
	}
	sets := make([]string, 0, len(g.Columns))
	for _, c := range g.Columns[g.Key:] {
		sets = append(sets, pgconn.Ident(c.Name)+" = EXCLUDED."+pgconn.Ident(c.Name))
	}
	return s + "UPDATE SET " + strings.Join(sets, ", ") + g.Guard.condition()
}

// condition is the end of a guarded upsert: t is the row that is there.
func (g *Guard) condition() string {
	if g == nil {
		return ""
	}
	v, s := pgconn.Ident(g.Version), pgconn.Ident(g.Scope)
	return fmt.Sprintf(" WHERE t.%[2]s IS DISTINCT FROM EXCLUDED.%[2]s OR (t.%[1]s <= EXCLUDED.%[1]s) IS NOT FALSE", v, s)
}

// same is the condition that the keys of two rows are one.
func (g *Target) same(a, b string) string {
	parts := make([]string, g.Key)
	for i, c := range g.Columns[:g.Key] {
		parts[i] = a + "." + pgconn.Ident(c.Name) + " = " + b + "." + pgconn.Ident(c.Name)
	}
	return strings.Join(parts, " AND ")
}
