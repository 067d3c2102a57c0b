package postgres

import (
	"context"
	"os"
	"slices"
	"time"

	"etl/checkpoint"
	"etl/internal/pgconn"
	"etl/sink"
	"etl/sink/idempotent"
	"etl/sink/sqltxn"
	"etl/stream"
)

// Config describes a sink. The zero value of a field means its default.
type Config struct {
	Conn pgconn.Config
	// Table is "schema.table", or "table" in schema public. It must exist.
	Table string
	// Mode is upsert or upsert_delete; default upsert.
	Mode sqltxn.Mode
	// Key are the columns of the key, at least one.
	Key []string
	// Columns are those that are written, Key among them, without those of the guard.
	Columns []string
	// Encoder returns an encoder for one subtask, which gives rows their values in the
	// order of sqltxn.KeyFirst(Columns, Key).
	Encoder func() sqltxn.Encoder
	// Guard is counter, position or none; default counter.
	Guard idempotent.Guard
	// VersionColumn and ScopeColumn are those of the guard; default etl_version, a
	// bigint, and etl_scope, a text.
	VersionColumn, ScopeColumn string
	// LockTimeout bounds every wait for a lock; default 10s.
	LockTimeout time.Duration
	// OnError is the component's policy for rows that only the server can refuse; default
	// fail.
	OnError idempotent.OnError
	// Policy is the job's; its zero fields have the policy's defaults.
	Policy checkpoint.Policy
}

// WithDefaults returns c with its zero fields filled in.
func (c Config) WithDefaults() Config {
	c.Conn, c.Policy = c.Conn.WithDefaults(), c.Policy.WithDefaults()
	if c.Mode == "" {
		c.Mode = sqltxn.Upsert
	}
	if c.Guard == "" {
		c.Guard = idempotent.Counter
	}
	if c.VersionColumn == "" {
		c.VersionColumn = "etl_version"
	}
	if c.ScopeColumn == "" {
		c.ScopeColumn = "etl_scope"
	}
	if c.OnError == "" {
		c.OnError = idempotent.Fail
	}
	if c.LockTimeout == 0 {
		c.LockTimeout = 10 * time.Second
	}
	return c
}

// Problems returns everything that is wrong with c, which has its defaults, as far as it
// can be seen without connecting.
func (c *Config) Problems() (errs []error) {
	errs = c.Conn.Problems()
	bad := func(code, subject, fix, format string, args ...any) {
		errs = append(errs, stream.Errorf(stream.BadConfig, "postgres."+code, "", subject, format, args...).WithFix("%s", fix))
	}
	if _, _, err := sqltxn.SplitTable(c.Table); err != nil {
		bad("table", "", "write table or schema.table; a name that needs quotes cannot be used", "%v", err)
	}
	switch {
	case c.Mode != sqltxn.Upsert && c.Mode != sqltxn.UpsertDelete:
		bad("mode", "", "write mode: upsert, or another delivery", "mode %s writes a row again in a replay: delivery: idempotent takes upsert or upsert_delete", c.Mode)
	case c.Mode == sqltxn.UpsertDelete && c.Guard != idempotent.NoGuard:
		bad("mode", "", "write version: none, or mode: upsert", "a deleted row leaves no version behind, so that a replay could bring it back: mode upsert_delete has no guard (version: none)")
	}
	if len(c.Key) == 0 {
		bad("key", "", "add key: the columns that a unique index has, or use another delivery", "delivery: idempotent needs a key: without one a replay adds rows instead of replacing them")
	}
	names := c.columns()
	for i, n := range names {
		if err := sqltxn.CheckName(n); err != nil {
			bad("columns", n, "rename the column in the table, or leave it out", "%v", err)
		}
		if slices.Contains(names[:i], n) {
			bad("columns", n, "list it once, or name the columns of the guard by version_column and scope_column", "the column %q is given twice; %s and %s are the guard's", n, c.VersionColumn, c.ScopeColumn)
		}
	}
	for _, k := range c.Key {
		if !slices.Contains(c.Columns, k) {
			bad("key", k, "add it under columns:, or mend key:", "the column %q of the key is not among columns", k)
		}
	}
	if c.LockTimeout < time.Millisecond || c.LockTimeout > time.Hour {
		bad("lock_timeout", "", "write 10s, or remove it", "lock_timeout %v is not between 1ms and 1h", c.LockTimeout)
	}
	return errs
}

// columns are all that are written, those of the guard last.
func (c *Config) columns() []string {
	if c.Guard == idempotent.NoGuard {
		return c.Columns
	}
	return append(slices.Clone(c.Columns), c.VersionColumn, c.ScopeColumn)
}

// DDL adds the guard's columns to the table.
func (c Config) DDL() string {
	c = c.WithDefaults()
	schema, name, err := sqltxn.SplitTable(c.Table)
	if err != nil || c.Guard == idempotent.NoGuard {
		return ""
	}
	return "ALTER TABLE " + pgconn.Ident(schema, name) + " ADD COLUMN IF NOT EXISTS " + pgconn.Ident(c.VersionColumn) + " bigint NOT NULL DEFAULT 0, ADD COLUMN IF NOT EXISTS " +
		pgconn.Ident(c.ScopeColumn) + " text NOT NULL DEFAULT ''"
}

// New returns the sink as a program plugs it into a pipeline.
func New(cfg Config) sink.Connector {
	cfg = cfg.WithDefaults()
	return idempotent.Connector{Config: idempotent.Config{Guard: cfg.Guard, Policy: cfg.Policy, OnError: cfg.OnError},
		NewStore: func() idempotent.Store { return &store{cfg: cfg} }}
}

// Findings are what a look at the server has told.
type Findings struct {
	Server pgconn.Server
	// Target is the table with the types of its columns; nil when it does not fit.
	Target *sqltxn.Target
}

// Preflight connects, looks at server, table and rights, and returns everything that is
// wrong. It changes nothing.
func (c Config) Preflight(ctx context.Context, w stream.World, job string, uid stream.UID) (f Findings, errs []error) {
	s := &store{cfg: c.WithDefaults()}
	if err := s.connect(ctx, w, "etl "+job+"/"+string(uid)); err != nil {
		return f, []error{err}
	}
	defer s.pool.Close()
	server, errs := s.look(ctx, w.Clock)
	return Findings{Server: server, Target: s.target}, errs
}

// spillDir is never used: what is written at once fits into memory.
func spillDir() string { return os.TempDir() }

// Setup returns the statements that prepare the table: the guard's columns and, when role is
// not empty, the least rights that role needs. The table itself must exist.
func (c Config) Setup(_ context.Context, _ stream.World, _ string, _ stream.UID, role string) (out []sqltxn.Statement, err error) {
	c = c.WithDefaults()
	schema, name, err := sqltxn.SplitTable(c.Table)
	if err != nil {
		return nil, err
	}
	table := pgconn.Ident(schema, name)
	if ddl := c.DDL(); ddl != "" {
		out = append(out, sqltxn.Statement{SQL: ddl, Why: "the version of each row, and what it can be compared with"})
	}
	if role == "" {
		return out, nil
	}
	rights := "SELECT, INSERT, UPDATE"
	if c.Mode == sqltxn.UpsertDelete {
		rights += ", DELETE"
	}
	return append(out, sqltxn.Statement{SQL: "GRANT USAGE ON SCHEMA " + pgconn.Ident(schema) + " TO " + pgconn.Ident(role), Why: "the least rights of the job's role"},
		sqltxn.Statement{SQL: "GRANT " + rights + " ON " + table + " TO " + pgconn.Ident(role)}), nil
}

// Initialise runs the statements of Setup, with the connection's role.
func (c Config) Initialise(ctx context.Context, w stream.World, job string, uid stream.UID, role string) error {
	statements, err := c.Setup(ctx, w, job, uid, role)
	if err != nil {
		return err
	}
	s := &store{cfg: c.WithDefaults()}
	if err := s.connect(ctx, w, "etl "+job+"/"+string(uid)); err != nil {
		return err
	}
	defer s.pool.Close()
	return s.pool.With(ctx, func(c *pgconn.Conn) error { return sqltxn.ApplyStatements(ctx, c, statements) })
}
