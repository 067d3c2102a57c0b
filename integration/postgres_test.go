package integration

import (
	"context"
	"fmt"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"etl/internal/kafkatest"
	"etl/internal/pgtest"
)

// database is an empty database with a role that may connect to it and owns nothing.
type database struct {
	t testing.TB
	// admin is the address for who sets up, worker that of the job's role.
	admin, worker string
	role          string
	pool          *pgxpool.Pool
}

var roles atomic.Int64

func newDatabase(t testing.TB, s *pgtest.Database) *database {
	t.Helper()
	d := &database{t: t, admin: s.NewDatabase(t), role: fmt.Sprintf("worker_%d", roles.Add(1))}
	u, err := url.Parse(d.admin)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(d.role, "work")
	d.worker = u.String()
	if d.pool, err = pgxpool.New(t.Context(), d.admin); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.pool.Close)
	d.exec("CREATE ROLE " + d.role + " LOGIN PASSWORD 'work' NOSUPERUSER NOCREATEDB NOCREATEROLE")
	return d
}

func (d *database) exec(sql string) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := d.pool.Exec(ctx, sql); err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
}

// text is the answer to a query of one value; the server may be away.
func (d *database) ask(sql string) (s string, err error) {
	err = d.pool.QueryRow(context.Background(), "SELECT coalesce(("+sql+")::text, 'null')").Scan(&s)
	return s, err
}

// wants asks until the answer is right.
func (d *database) wants(sql, want string) {
	d.t.Helper()
	got, err := "", error(nil)
	defer func() {
		if d.t.Failed() {
			d.t.Logf("%s: %s (%v), want %s", sql, got, err, want)
		}
	}()
	eventually(d.t, sql, func() bool { got, err = d.ask(sql); return err == nil && got == want })
}

// is demands an answer at once.
func (d *database) is(sql, want string) {
	d.t.Helper()
	if got, err := d.ask(sql); err != nil || got != want {
		d.t.Errorf("%s: %s (%v), want %s", sql, got, err, want)
	}
}

// rows are the values of the numbers in a query.
func (d *database) numbers(sql string) map[int]int {
	d.t.Helper()
	rows, err := d.pool.Query(context.Background(), sql)
	if err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
	out := map[int]int{}
	var n, times int
	if _, err := pgx.ForEachRow(rows, []any{&n, &times}, func() error { out[n] = times; return nil }); err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
	return out
}

// deserted waits until the job has no session any more. A server goes on with the statement
// of a process that was killed, and keeps its locks until then.
func (d *database) deserted() {
	d.t.Helper()
	d.wants("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = '"+d.role+"'", "0")
}

// settled demands that nothing waits any more: no prepared transaction, nothing staged.
func (d *database) settled() {
	d.t.Helper()
	d.is("SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()", "0")
	d.is("SELECT count(*) FROM etl.staged", "0")
}

// countingAndCopying counts by key into one table, and copies into another one. how is
// what the sinks say of the way there.
func countingAndCopying(how string) string {
	return common + `  db: { type: postgres, dsn: "${DSN}" }
` + often + `
parallelism: 2
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"] }
transforms:
  counts: { type: aggregate, inputs: [in], key: this.k, emit: on_change, aggregates: { c: count, last: { op: max, of: this.n } } }
sinks:
  counted:
    type: postgres
    inputs: [counts]
    connection: db
    table: counted
    mode: upsert
    key: k
    columns: { k: this.key, c: this.c, last: this.last }
    ` + how + `
  copied: { type: postgres, inputs: [in], connection: db, table: copied, columns: { k: this.k, n: this.n, at: meta.offset }, ` + how + ` }
`
}

var intoTables = countingAndCopying(`strategy: "${STRATEGY}"`)

// tables are those of countingAndCopying.
const tables = "CREATE TABLE counted (k text PRIMARY KEY, c bigint NOT NULL, last bigint NOT NULL); CREATE TABLE copied (k text, n int, at bigint)"

// newTableJob is a job of intoTables, set up for a role without rights of its own.
func newTableJob(t testing.TB, b *kafkatest.Broker, d *database, strategy string) (j *job, in string) {
	t.Helper()
	in = b.Topic(t, 3)
	d.exec(tables)
	j = newJob(t, b, intoTables, "IN="+in, "STRATEGY="+strategy, "DSN="+d.admin)
	j.must("sink init", "--apply", "--role", d.role)
	j.set("DSN=" + d.worker)
	return j, in
}

// counted demands that n records with the numbers 0 to n-1 and k keys are in both tables,
// once each.
func (d *database) counted(n, keys int) {
	d.t.Helper()
	d.wants("SELECT count(*) FROM copied", fmt.Sprint(n))
	for i, times := range d.numbers("SELECT n, count(*) FROM copied GROUP BY n") {
		if times != 1 || i < 0 || i >= n {
			d.t.Errorf("record %d is there %d times", i, times)
		}
	}
	d.wants("SELECT sum(c) FROM counted", fmt.Sprint(n))
	d.is("SELECT count(*) FROM counted", fmt.Sprint(keys))
	d.is("SELECT count(*) FROM counted WHERE c <> (SELECT count(*) FROM copied WHERE copied.k = counted.k) OR last <> (SELECT max(n) FROM copied WHERE copied.k = counted.k)", "0")
}
