package pgconn

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"etl/stream"
)

// Server is what a server says about itself and about this connection to it.
type Server struct {
	Version  int // 150018
	Role     string
	Database string
	Super    bool
	// MaxPrepared is max_prepared_transactions; Prepared how many there are now, in all
	// databases.
	MaxPrepared, Prepared int
	// Pooled says that something between hands sessions out: the process the server
	// speaks of is not the one the log-in named.
	Pooled bool
	// StatementPooling says that it allows no transactions at all.
	StatementPooling bool
	// Durable is false when the server does not flush to disk at all (fsync = off).
	Durable bool
	// Clock is the server's time less that of the job.
	Clock time.Duration
}

// Inspect asks the server. now is the job's clock.
func (p *Pool) Inspect(ctx context.Context, clock stream.Clock) (s Server, err error) {
	err = p.With(ctx, func(c *Conn) error {
		var pid int
		var fsync string
		var at time.Time
		begin := clock.Now()
		err := c.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_user, current_database(),
			(SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user), current_setting('max_prepared_transactions')::int,
			(SELECT count(*)::int FROM pg_catalog.pg_prepared_xacts), pg_backend_pid(), current_setting('fsync'), clock_timestamp()`, nil,
			&s.Version, &s.Role, &s.Database, &s.Super, &s.MaxPrepared, &s.Prepared, &pid, &fsync, &at)
		if err != nil {
			return Explain(err, "inspect server", p.address())
		}
		s.Pooled = int(c.c.Conn().PgConn().PID()) != pid
		s.Durable = fsync == "on"
		s.Clock = at.Sub(begin)
		return s.transactions(ctx, c)
	})
	return s, err
}

// transactions tries whether a transaction of several statements is allowed. A pooler in
// statement mode refuses BEGIN, or gives each statement to another session.
func (s *Server) transactions(ctx context.Context, c *Conn) error {
	if !s.Pooled {
		return nil
	}
	if err := c.Begin(ctx, time.Second); err != nil {
		if State(err) == "" || strings.HasPrefix(State(err), "08") {
			s.StatementPooling = true
			c.Break()
			return nil
		}
		return Explain(err, "begin", "")
	}
	defer c.Rollback(ctx)
	var a, b int
	for _, pid := range []*int{&a, &b} {
		if err := c.QueryRow(ctx, "SELECT pg_backend_pid()", nil, pid); err != nil {
			return Explain(err, "inspect pooler", "")
		}
	}
	s.StatementPooling = a != b
	return nil
}

// Prepared is one prepared transaction of the connected database.
type Prepared struct {
	GID   string
	Owner string
	Age   time.Duration
}

// ListPrepared lists the prepared transactions of this database whose gid begins with
// prefix, of all roles.
func (c *Conn) ListPrepared(ctx context.Context, prefix string) (out []Prepared, err error) {
	err = c.Query(ctx, `SELECT gid, owner::text, extract(epoch FROM clock_timestamp() - prepared)::float8
		FROM pg_catalog.pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, $1) ORDER BY gid`, []any{prefix},
		func(r pgx.Rows) error {
			var p Prepared
			var age float64
			if err := r.Scan(&p.GID, &p.Owner, &age); err != nil {
				return err
			}
			p.Age = time.Duration(age * float64(time.Second))
			out = append(out, p)
			return nil
		})
	return out, Explain(err, "list prepared transactions", prefix)
}

// Terminate ends the sessions under one of the application names, in this database and of
// this role, that are in the middle of something and wait for their client, and returns how
// many there were. What such a session has locked, a client that was stopped, or is gone
// without a word, would hold for ever.
//
// Others are left alone. One that is at work comes to its end, or to its client. One whose
// COMMIT waits for a synchronous standby would break that wait off, and show what no standby
// has. One that does nothing may be somebody else's in a moment, behind a pooler.
func (c *Conn) Terminate(ctx context.Context, applications []string) (n int, err error) {
	err = c.QueryRow(ctx, `SELECT count(pg_terminate_backend(pid))::int FROM pg_catalog.pg_stat_activity
		WHERE application_name = ANY($1::text[]) AND state <> 'idle' AND wait_event_type = 'Client'
		AND datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()`, []any{applications}, &n)
	return n, Explain(err, "end sessions of earlier attempts", strings.Join(applications[:min(1, len(applications))], ""))
}

// String returns the server in one line.
func (s Server) String() string {
	pooled := ""
	if s.Pooled {
		pooled = ", behind a pooler"
	}
	return fmt.Sprintf("PostgreSQL %d.%d, database %s, role %s, max_prepared_transactions %d%s",
		s.Version/10000, s.Version%10000, s.Database, s.Role, s.MaxPrepared, pooled)
}
