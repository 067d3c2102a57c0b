package postgres

import (
	"context"
	"time"

	"etl/internal/pgconn"
	"etl/sink/sqltxn"
	"etl/stream"
)

// Findings are what a look at the server has told.
type Findings struct {
	Choice
	Server pgconn.Server
	// Target is the table with the types of its columns; nil when it does not fit.
	Target *sqltxn.Target
	// Warnings stop nothing.
	Warnings []error
}

// Preflight connects, looks at server, table, books and rights, and decides the strategy.
// It returns everything that is wrong and changes nothing. uid is the sink's.
func (s *Sink) Preflight(ctx context.Context, w stream.World, job string, uid stream.UID) (f Findings, errs []error) {
	err := s.visit(ctx, w, job, uid, func(id identity, p *pgconn.Pool) error {
		var found *plan
		if found, errs = s.look(ctx, id, p); found != nil {
			f.Choice, f.Server, f.Target = found.Choice, found.server, found.target
		}
		return nil
	})
	if err != nil {
		errs = append(errs, err)
	}
	f.Warnings = f.warnings()
	return f, errs
}

// visit calls fn with a connection of no attempt.
func (s *Sink) visit(ctx context.Context, w stream.World, job string, uid stream.UID, fn func(identity, *pgconn.Pool) error) error {
	id := identity{World: w, book: s.cfg.book(job, uid, stream.Lineage{})}
	cfg := s.cfg.Conn
	if cfg.Dial == nil {
		cfg.Dial = w.Dial
	}
	p, err := pgconn.Open(ctx, cfg, 1, "etl "+job+"/"+string(uid))
	if err != nil {
		return err
	}
	defer p.Close()
	return fn(id, p)
}

func (f *Findings) warnings() (out []error) {
	warn := func(code, fix, format string, args ...any) {
		out = append(out, stream.Errorf(stream.Environment, "postgres."+code, "look at server", "", format, args...).WithFix("%s", fix))
	}
	if f.Server.Version != 0 && !f.Server.Durable {
		warn("not_durable", "set fsync = on", "the server runs with fsync = off: a crash of its machine can lose what it has confirmed")
	}
	if skew := f.Server.Clock.Round(time.Second); skew.Abs() > tolerableSkew {
		warn("clock", "synchronise the clocks of both machines", "the server's clock differs from this machine's by %v: ages of what is in doubt are wrong by as much", skew)
	}
	return out
}

// tolerableSkew is how far the clocks of server and job may be apart unmentioned.
const tolerableSkew = 10 * time.Second

// Setup returns the statements that set the database up for the sink: the books, its
// staging table, and the least rights that a role needs, "" for that of the connection.
// The table itself must exist.
func (s *Sink) Setup(ctx context.Context, w stream.World, job string, uid stream.UID, role string) (out []sqltxn.Statement, err error) {
	err = s.visit(ctx, w, job, uid, func(id identity, p *pgconn.Pool) error {
		if role == "" {
			server, err := p.Inspect(ctx, w.Clock)
			if err != nil {
				return err
			}
			role = server.Role
		}
		out, err = s.setup(ctx, id, p, role)
		return err
	})
	return out, err
}

// setup returns the statements; a role of "" is granted nothing.
func (s *Sink) setup(ctx context.Context, id identity, p *pgconn.Pool, role string) (out []sqltxn.Statement, err error) {
	err = p.With(ctx, func(c *pgconn.Conn) error {
		g, errs := s.target(ctx, c)
		if len(errs) > 0 {
			return errs[0]
		}
		out = id.book.Setup(g, role)
		return nil
	})
	return out, err
}

// Initialise sets the database up with the connection's role, which needs the right to
// create, and grants a role what it needs; "" when the job's role owns everything.
func (s *Sink) Initialise(ctx context.Context, w stream.World, job string, uid stream.UID, role string) error {
	return s.visit(ctx, w, job, uid, func(id identity, p *pgconn.Pool) error {
		statements, err := s.setup(ctx, id, p, role)
		if err != nil {
			return err
		}
		return p.With(ctx, func(c *pgconn.Conn) error { return sqltxn.ApplyStatements(ctx, c, statements) })
	})
}
