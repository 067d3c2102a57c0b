package torture

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"etl/internal/pgtest"
	"etl/internal/testservice"
)

// Strategy is how a job writes tables of PostgreSQL; a job that writes topics has none.
type Strategy string

// The strategies.
const (
	Prepared   Strategy = "prepared"   // delivery two_phase, PREPARE TRANSACTION
	Staged     Strategy = "staged"     // delivery two_phase, a staging table
	Logged     Strategy = "wal"        // delivery wal
	Idempotent Strategy = "idempotent" // delivery idempotent, upserts by key
)

// Strategies are all of them.
var Strategies = []Strategy{Prepared, Staged, Logged, Idempotent}

// how is what the pipeline file says of it.
func (s Strategy) how() string {
	switch s {
	case Prepared, Staged:
		return "strategy: " + string(s)
	case Logged, Idempotent:
		return "delivery: " + string(s)
	}
	return ""
}

// books reports whether the sinks keep books in the database, markers among them.
func (s Strategy) books() bool { return s != Idempotent }

// tableInterval is between the checkpoints of jobs that write tables.
const tableInterval = 70 * time.Millisecond

// dsnEnv holds the address of the database, which the pipeline file names only.
const dsnEnv = "ETL_TORTURE_DSN"

// Tables is a database of its own for one job: a table of counts, upserted by key, and
// one of copies, to which rows are appended; where rows can only be upserted, copies
// have a key, too. The job's role may create nothing. The harness has a pool of its own
// that nobody cuts.
type Tables struct {
	into   Strategy
	server *pgtest.Server
	pool   *pgxpool.Pool
	admin  string // addresses: of who sets up
	worker string // and of the job
	role   string
	// net is the network between the job and the server; nil for none that can be cut.
	net *testservice.Proxy
}

var databases atomic.Int64

// NewTables makes database, tables and role. The password of the role must never be seen
// in a log.
func NewTables(ctx context.Context, s *pgtest.Server, into Strategy, password string) (d *Tables, err error) {
	name := fmt.Sprintf("torture_%d", databases.Add(1))
	d = &Tables{into: into, server: s, role: name + "_worker"}
	if d.admin, err = s.CreateDatabase(ctx, name); err != nil {
		return nil, err
	}
	if d.worker, err = dsnOf(d.admin, d.role, password, ""); err != nil {
		return nil, err
	}
	if d.pool, err = pgxpool.New(ctx, d.admin); err != nil {
		return nil, err
	}
	key := ""
	if into == Idempotent {
		key = " PRIMARY KEY"
	}
	_, err = d.pool.Exec(ctx, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s' NOSUPERUSER NOCREATEDB NOCREATEROLE; "+
		"CREATE TABLE counted (k text PRIMARY KEY, c bigint NOT NULL, sum bigint NOT NULL); "+
		"CREATE TABLE copied (n bigint%s, k text NOT NULL, x text NOT NULL)", d.role, password, key))
	return d, err
}

// dsnOf changes user and, if one is given, host of an address.
func dsnOf(dsn, user, password, host string) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return "", err
	}
	u.User = url.UserPassword(user, password)
	if host != "" {
		u.Host = host
	}
	return u.String(), nil
}

// Through puts a network that can be cut between job and server.
func (d *Tables) Through(password string) error {
	port, err := testservice.FreePort()
	if err != nil {
		return err
	}
	if d.net, err = testservice.StartProxy(testservice.Loopback(port), d.server.Addr()); err != nil {
		return err
	}
	d.worker, err = dsnOf(d.worker, d.role, password, d.net.Addr())
	return err
}

// Close closes what the harness holds; the database stays with its server.
func (d *Tables) Close() {
	d.pool.Close()
	if d.net != nil {
		d.net.Close()
	}
}

// number is the answer to a query of one number.
func (d *Tables) number(ctx context.Context, sql string) (n int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, ownerPatience)
	defer cancel()
	err = d.pool.QueryRow(ctx, sql).Scan(&n)
	return n, err
}

// init makes the books and grants the job's role what it needs, as somebody would do it.
func (d *Tables) init(ctx context.Context, j *Job, binary string) error {
	j.dsn = d.admin
	a, code, err := j.Tool(ctx, binary, "sink", "init", j.File, "--apply", "--role", d.role)
	if err != nil || code != 0 {
		return fmt.Errorf("sink init: exit %d, %s, %w", code, a.Error.Message, err)
	}
	j.dsn = d.worker
	return nil
}

// tables are the sinks of a job that writes tables.
func (j *Job) tables() string {
	var s strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&s, format+"\n", args...) }
	line("  counted: { type: postgres, inputs: [per_key], connection: db, table: counted, mode: upsert, key: k, columns: { k: this.key, c: this.c, sum: this.sum }, %s }", j.Into.how())
	mode := ""
	if j.Into == Idempotent {
		mode = "mode: upsert, key: n, version: none, "
	}
	line("  copied: { type: postgres, inputs: [in], connection: db, table: copied, %scolumns: { n: this.n, k: this.k, x: this.x }, %s }", mode, j.Into.how())
	return s.String()
}
