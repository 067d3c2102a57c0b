package sqltxn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"etl/internal/pgconn"
	"etl/stream"
)

// Table is a table of the server as a sink needs to know it.
type Table struct {
	Schema, Name string
	Columns      []Column
	// Uniques are its unique indexes and exclusion constraints, those of its partitions
	// included.
	Uniques []Unique
	// Triggers says that rows meet triggers of users: what they do, nobody knows.
	Triggers bool
	// Kind is pg_class.relkind: r for a table, p for a partitioned one.
	Kind string
	// Logged is false when a crash of the server empties the table.
	Logged bool
}

// Column is one column.
type Column struct {
	Name string
	Type *Type // nil when nothing can be written for its type
	// Declared is the type as the definition words it.
	Declared string
	NotNull  bool
	// Default says that the column has a value when none is given.
	Default bool
	// Generated says that none may be given.
	Generated bool
	// Loose says that its collation calls texts equal that differ.
	Loose bool
}

// Unique is what two rows may not share.
type Unique struct {
	Name    string
	Columns []string
	// Plain says that it can stand behind ON CONFLICT (columns): not partial, not of
	// expressions, not deferrable, not an exclusion constraint.
	Plain bool
}

// Column returns the column with the name, nil when there is none.
func (t *Table) Column(name string) *Column {
	for i := range t.Columns {
		if t.Columns[i].Name == name {
			return &t.Columns[i]
		}
	}
	return nil
}

// String returns the quoted name.
func (t *Table) String() string { return pgconn.Ident(t.Schema, t.Name) }

// SplitTable reads "schema.table" or "table", which is in schema public. Only names that
// need no quotes are taken (S6), so that what is in the pipeline file is what is there.
func SplitTable(s string) (schema, name string, err error) {
	schema, name, ok := strings.Cut(s, ".")
	if !ok {
		schema, name = "public", s
	}
	return schema, name, errors.Join(CheckName(schema), CheckName(name))
}

// MaxName is the length of identifiers beyond which the server cuts them off silently.
const MaxName = 63

// CheckName refuses an identifier that is not 1 to 63 letters, digits, '_' and '$',
// beginning with a letter or '_'.
func CheckName(s string) error {
	bad := s == "" || len(s) > MaxName
	for i, c := range s {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
		bad = bad || !letter && (i == 0 || (c < '0' || c > '9') && c != '$')
	}
	if bad {
		return stream.Errorf(stream.BadConfig, "postgres.name", "", "", "the name %q: 1 to %d of letters, digits, '_' and '$', not beginning with a digit", s, MaxName)
	}
	return nil
}

// LoadTable reads a table's definition.
func LoadTable(ctx context.Context, c *pgconn.Conn, schema, name string) (*Table, error) {
	t := &Table{Schema: schema, Name: name}
	var oid uint32
	var persistence string
	err := c.QueryRow(ctx, `SELECT c.oid, c.relkind::text, c.relpersistence::text,
			EXISTS (SELECT FROM pg_catalog.pg_trigger g JOIN pg_catalog.pg_partition_tree(c.oid) p ON g.tgrelid = p.relid WHERE NOT g.tgisinternal AND g.tgenabled <> 'D')
			OR EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.tgrelid = c.oid AND NOT g.tgisinternal AND g.tgenabled <> 'D')
		FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2`,
		[]any{schema, name}, &oid, &t.Kind, &persistence, &t.Triggers)
	if errors.Is(err, pgconn.ErrNoRow) {
		return nil, stream.Errorf(stream.Environment, pgconn.CodeMissing, "look at table", schema+"."+name, "there is no such table").
			WithFix("create it, or mend table:")
	}
	if err != nil {
		return nil, pgconn.Explain(err, "look at table", schema+"."+name)
	}
	t.Logged = persistence == "p"
	if err := t.loadColumns(ctx, c, oid); err != nil {
		return nil, pgconn.Explain(err, "look at columns", schema+"."+name)
	}
	if err := t.loadUniques(ctx, c, oid); err != nil {
		return nil, pgconn.Explain(err, "look at indexes", schema+"."+name)
	}
	return t, nil
}

func (t *Table) loadColumns(ctx context.Context, c *pgconn.Conn, oid uint32) error {
	type column struct {
		Column
		oid uint32
		mod int32
	}
	var found []column
	err := c.Query(ctx, `SELECT a.attname, a.atttypid, a.atttypmod, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull,
			a.atthasdef OR a.attidentity <> '', a.attgenerated <> '' OR a.attidentity = 'a', NOT coalesce(l.collisdeterministic, true)
		FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation
		WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`, []any{oid}, func(r pgx.Rows) error {
		var f column
		err := r.Scan(&f.Name, &f.oid, &f.mod, &f.Declared, &f.NotNull, &f.Default, &f.Generated, &f.Loose)
		found = append(found, f)
		return err
	})
	if err != nil {
		return err
	}
	for _, f := range found {
		typ, err := loadType(ctx, c, f.oid, f.mod)
		if err != nil {
			return err
		}
		if typ.supported() {
			typ.Declared = f.Declared
			f.Type = typ
		}
		t.Columns = append(t.Columns, f.Column)
	}
	return nil
}

// loadUniques looks at the table and all of its partitions: a partition may have unique
// indexes of its own.
func (t *Table) loadUniques(ctx context.Context, c *pgconn.Conn, oid uint32) error {
	err := c.Query(ctx, `SELECT x.relname, i.indrelid = $1 AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indimmediate AND i.indisunique AND i.indisvalid,
			coalesce((SELECT array_agg(a.attname::text ORDER BY k.n) FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(num, n)
				JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.num WHERE k.n <= i.indnkeyatts), '{}')
		FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
		WHERE (i.indisunique OR i.indisexclusion) AND i.indrelid IN (SELECT $1 UNION SELECT relid FROM pg_catalog.pg_partition_tree($1))
		ORDER BY i.indisprimary DESC, x.relname`, []any{oid}, func(r pgx.Rows) error {
		var u Unique
		err := r.Scan(&u.Name, &u.Plain, &u.Columns)
		t.Uniques = append(t.Uniques, u)
		return err
	})
	return err
}

// supported reports whether values can be written for the type.
func (t *Type) supported() bool {
	if t.form == arrayForm {
		return t.Elem.form != arrayForm && t.Elem.supported()
	}
	return t.form != unsupported && t.Array != 0
}

// loadType reads a type, through domains to what they stand for.
func loadType(ctx context.Context, c *pgconn.Conn, oid uint32, mod int32) (*Type, error) {
	t := &Type{OID: oid, length: -1, precision: -1}
	var space, kind, category string
	var elem, base uint32
	var baseMod int32
	err := c.QueryRow(ctx, `SELECT n.nspname, t.typname, t.typtype::text, t.typcategory::text, t.typelem, t.typarray, t.typbasetype, t.typtypmod, pg_catalog.format_type(t.oid, $2)
		FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace WHERE t.oid = $1`,
		[]any{oid, mod}, &space, &t.name, &kind, &category, &elem, &t.Array, &base, &baseMod, &t.Declared)
	if err != nil {
		return nil, err
	}
	switch {
	case kind == "d":
		inner, err := loadType(ctx, c, base, baseMod)
		if err == nil {
			inner.domain = true
		}
		return inner, err
	case kind == "e":
		t.form, t.name = enumForm, ""
		return t, t.loadLabels(ctx, c)
	case category == "A" && elem != 0:
		t.form = arrayForm
		t.Elem, err = loadType(ctx, c, elem, mod)
		return t, err
	case space == "pg_catalog":
		t.form = byName[t.name]
	case category == "S" && kind == "b": // citext and its like
		t.form, t.name = textForm, ""
	}
	t.bounds(mod)
	return t, nil
}

// bounds reads the modifier of a type: numeric(10,2), varchar(3).
func (t *Type) bounds(mod int32) {
	if mod < 4 {
		return
	}
	switch t.form {
	case textForm:
		t.length = int(mod - 4)
	case numericForm:
		t.precision = int((mod - 4) >> 16 & 0xffff)
		t.scale = int((mod-4)&0x7ff ^ 1024 - 1024) // negative since 15
	}
}

func (t *Type) loadLabels(ctx context.Context, c *pgconn.Conn) error {
	t.labels = map[string]bool{}
	return c.Query(ctx, "SELECT enumlabel::text FROM pg_catalog.pg_enum WHERE enumtypid = $1", []any{t.OID}, func(r pgx.Rows) error {
		var l string
		err := r.Scan(&l)
		t.labels[l] = true
		return err
	})
}

// covers reports whether a unique index is on exactly these columns, in any order.
func (u *Unique) covers(columns []string) bool {
	a, b := slices.Clone(u.Columns), slices.Clone(columns)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// missing words the columns of the table that need a value and get none.
func (t *Table) missing(columns []string) (out []string) {
	for _, c := range t.Columns {
		if c.NotNull && !c.Default && !c.Generated && !slices.Contains(columns, c.Name) {
			out = append(out, fmt.Sprintf("%s %s", c.Name, c.Declared))
		}
	}
	return out
}
