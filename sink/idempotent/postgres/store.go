package postgres

import (
	"context"
	"errors"
	"math"
	"strings"

	"etl/expr"
	"etl/internal/fault"
	"etl/internal/pgconn"
	"etl/sink/idempotent"
	"etl/sink/sqltxn"
	"etl/stream"
)

// store is the table as one subtask uses it, over a connection of its own.
type store struct {
	cfg    Config
	pool   *pgconn.Pool
	target *sqltxn.Target
	mem    *sqltxn.Memory
	encode sqltxn.Encoder
	row    *sqltxn.Row
	scope  []byte // scratch
}

// Open connects and checks the table.
func (s *store) Open(ctx context.Context, env stream.Env) error {
	if s.cfg.Encoder == nil {
		return errors.New("no encoder is given")
	}
	if err := s.connect(ctx, env.World, pgconn.Application(env.Lineage, env.Attempt, env.Job, env.UID)); err != nil {
		return err
	}
	if _, errs := s.look(ctx, env.Clock); len(errs) > 0 {
		return errs[0]
	}
	// A batch is written in moments: nothing is ever spilled.
	s.mem = sqltxn.NewMemory(env.FS, math.MaxInt64, spillDir(), "etl-idempotent")
	s.encode, s.row = s.cfg.Encoder(), sqltxn.NewRow(s.target)
	return nil
}

func (s *store) connect(ctx context.Context, w stream.World, application string) (err error) {
	cfg := s.cfg.Conn
	if cfg.Dial == nil {
		cfg.Dial = w.Dial
	}
	cfg.Log = w.Log
	s.pool, err = pgconn.Open(ctx, cfg, 1, application)
	return err
}

// look finds out what there is, and everything that is wrong with it.
func (s *store) look(ctx context.Context, clock stream.Clock) (server pgconn.Server, errs []error) {
	server, err := s.pool.Inspect(ctx, clock)
	if err != nil {
		return server, []error{err}
	}
	if server.StatementPooling {
		return server, []error{stream.Errorf(stream.Environment, "postgres.statement_pooling", "look at server", "", "a pooler gives every statement to another session: batches have transactions of several").
			WithFix("set pool_mode = transaction in the pooler, or connect to the server itself")}
	}
	err = s.pool.With(ctx, func(c *pgconn.Conn) error {
		schema, name, err := sqltxn.SplitTable(s.cfg.Table)
		if err != nil {
			return err
		}
		t, err := sqltxn.LoadTable(ctx, c, schema, name)
		if err != nil {
			return err
		}
		if errs = s.fit(t); len(errs) > 0 {
			return nil
		}
		return rights(ctx, c, t)
	})
	if err != nil {
		errs = append(errs, err)
	}
	return server, errs
}

// fit makes the target of a table.
func (s *store) fit(t *sqltxn.Table) []error {
	guarded := s.cfg.Guard != idempotent.NoGuard
	if guarded {
		for _, name := range []string{s.cfg.VersionColumn, s.cfg.ScopeColumn} {
			if t.Column(name) == nil {
				return []error{stream.Errorf(stream.Environment, "postgres.no_version_column", "look at table", t.Schema+"."+t.Name, "it has no column %s, by which an older row is told from a newer one", name).
					WithFix("%s; or write version: none", s.cfg.DDL())}
			}
		}
	}
	g, errs := sqltxn.NewTarget(t, s.cfg.Mode, s.cfg.columns(), s.cfg.Key)
	if len(errs) > 0 {
		return errs
	}
	if guarded {
		g.Guard = &sqltxn.Guard{Version: s.cfg.VersionColumn, Scope: s.cfg.ScopeColumn}
		for name, kind := range map[string]stream.Kind{s.cfg.VersionColumn: stream.Int, s.cfg.ScopeColumn: stream.String} {
			if c := t.Column(name); c.Type.Accepts(kind) != nil || !wide(c.Declared) {
				errs = append(errs, stream.Errorf(stream.Environment, "postgres.version_column", "look at table", t.Schema+"."+t.Name, "the column %s has the type %s", name, c.Declared).
					WithFix("ALTER TABLE %s ALTER COLUMN %s TYPE %s", t, pgconn.Ident(name), map[stream.Kind]string{stream.Int: "bigint", stream.String: "text"}[kind]))
			}
		}
	}
	s.target = g
	return errs
}

// wide reports whether a type holds every version or scope.
func wide(declared string) bool { return declared == "bigint" || declared == "text" }

// rights asks for the rights that writing needs.
func rights(ctx context.Context, c *pgconn.Conn, t *sqltxn.Table) error {
	for _, right := range []string{"SELECT", "INSERT", "UPDATE"} {
		var ok bool
		if err := c.QueryRow(ctx, "SELECT has_table_privilege($1, $2)", []any{t.String(), right}, &ok); err != nil {
			return pgconn.Explain(err, "look at rights", t.String())
		}
		if !ok {
			return stream.Errorf(stream.Environment, pgconn.CodePermission, "look at rights", t.String(), "the right %s is missing", right).
				WithFix("GRANT %s ON %s TO the role of the connection", strings.Join([]string{"SELECT", "INSERT", "UPDATE"}, ", "), t)
		}
	}
	return nil
}

// Close closes the connection.
func (s *store) Close() error {
	if s.pool != nil {
		s.pool.Close()
	}
	return nil
}

// Begin returns an empty batch.
func (s *store) Begin() idempotent.Rows {
	r := sqltxn.NewRows(s.mem, true, s.cfg.OnError == idempotent.DeadLetter)
	if s.cfg.OnError != idempotent.Fail {
		r.KeepReplaced()
	}
	return &rows{s: s, rows: r}
}

// rows is a batch: the last row of each key.
type rows struct {
	s    *store
	rows *sqltxn.Rows
	n    int
}

// Len counts rows that were replaced, too: what is bounded by it is work.
func (r *rows) Len() int { return r.n }

// Add adds the row of a record.
func (r *rows) Add(rec *stream.Record, v idempotent.Version) (int, error) {
	s := r.s
	s.row.Reset()
	if err := s.encode(rec, s.row); err != nil {
		return 0, err
	}
	if s.target.Guard != nil {
		s.scope = append(s.scope[:0], v.Scope...)
		s.row.Value(expr.IntValue(int64(v.N)))
		s.row.Value(expr.TextValue(s.scope))
	}
	if err := r.rows.Add(s.row, rec); err != nil {
		return 0, err
	}
	r.n++
	return s.row.Size(), nil
}

// Write writes the batch in one transaction. Rows that the server refuses are found and
// left out.
func (r *rows) Write(ctx context.Context) (out []idempotent.Rejected, err error) {
	bad := sqltxn.Bad{}
	// Looking for bad rows can be fooled by what others commit meanwhile: it is repeated,
	// not for ever.
	for range 4 {
		if err = r.s.pool.With(ctx, func(c *pgconn.Conn) error { return r.commit(ctx, c, bad) }); pgconn.Row(err) == nil {
			break
		}
		if r.rows.Restore() {
			bad = sqltxn.Bad{}
		}
		serr := r.s.pool.With(ctx, func(c *pgconn.Conn) (err error) {
			bad, err = r.s.target.Sift(ctx, c, r.rows, bad, r.s.cfg.LockTimeout, nil)
			return err
		})
		if serr != nil {
			return nil, serr
		}
	}
	if err != nil {
		return nil, err
	}
	rs, err := bad.Rejects(r.rows, nil)
	for _, x := range rs {
		out = append(out, idempotent.Rejected{Record: x.Record, Code: x.Code, Message: x.Message})
	}
	return out, err
}

func (r *rows) commit(ctx context.Context, c *pgconn.Conn, bad sqltxn.Bad) error {
	if bad.Len() == r.rows.Len() {
		return nil
	}
	if err := c.BeginBrief(ctx, r.s.cfg.LockTimeout, pgconn.IdlePatience); err != nil {
		return pgconn.Explain(err, "begin", "")
	}
	if err := r.s.target.Write(ctx, c, r.rows, bad); err != nil {
		return pgconn.Explain(err, "write rows", r.s.cfg.Table)
	}
	fault.Point("idempotent.postgres.written")
	return pgconn.Explain(c.CommitAt(ctx, "idempotent.postgres.commit.sent"), "commit rows", r.s.cfg.Table)
}

// Free gives the memory back.
func (r *rows) Free() { r.rows.Free() }
