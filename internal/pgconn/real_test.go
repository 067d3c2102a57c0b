package pgconn

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"etl/internal/pgtest"
	"etl/internal/testservice"
	"etl/stream"
)

var noPrepared testservice.Shared[*pgtest.Server]

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Runner(noPrepared.Runner(m))) }

// pool connects to an empty database, as a role if one is given.
func pool(t *testing.T, dsn string) *Pool {
	t.Helper()
	cfg := config(t, dsn)
	p, err := Open(t.Context(), cfg, 4, "etl test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// config takes the password out of a test server's address.
func config(t *testing.T, dsn string) Config {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	pw, _ := u.User.Password()
	u.User = url.User(u.User.Username())
	return Config{DSN: u.String(), Password: stream.Secret(pw)}
}

// do runs f on a connection and fails the test on an error.
func do(t *testing.T, p *Pool, f func(ctx context.Context, c *Conn) error) {
	t.Helper()
	if err := p.With(t.Context(), func(c *Conn) error { return f(t.Context(), c) }); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, p *Pool, statements ...string) {
	t.Helper()
	do(t, p, func(ctx context.Context, c *Conn) error {
		for _, s := range statements {
			if _, err := c.Simple(ctx, s); err != nil {
				t.Fatalf("%s: %v", s, err)
			}
		}
		return nil
	})
}

func code(err error) string { return stream.ClassOf(err).String() + " " + stream.CodeOf(err) }

func want(t *testing.T, what string, err error, expected string) {
	t.Helper()
	if code(err) != expected {
		t.Errorf("%s: %s (%v), want %s", what, code(err), err, expected)
	}
}

// facts is a database in which transactions are prepared.
type facts struct {
	*testing.T
	d   *pgtest.Database
	dsn string
	p   *Pool
}

func newFacts(t *testing.T) *facts {
	d := pgtest.Shared(t)
	dsn := d.NewDatabase(t)
	f := &facts{T: t, d: d, dsn: dsn, p: pool(t, dsn)}
	run(t, f.p, "CREATE TABLE t (i int PRIMARY KEY)", "CREATE TABLE parent (i int PRIMARY KEY)",
		"CREATE TABLE child (i int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)")
	return f
}

// prepare runs statements in a transaction, failing or not, and prepares it.
func (f *facts) prepare(gid string, statements ...string) (err error) {
	do(f.T, f.p, func(ctx context.Context, c *Conn) error {
		if err := c.Begin(ctx, time.Second); err != nil {
			return err
		}
		for _, s := range statements {
			_, _ = c.Simple(ctx, s)
		}
		err = c.PrepareTransaction(ctx, gid, "")
		return nil
	})
	return err
}

func (f *facts) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// commit and rollback finish a transaction from a pool.
func (f *facts) commit(p *Pool, gid string) (err error) {
	do(f.T, p, func(ctx context.Context, c *Conn) error { err = c.CommitPrepared(ctx, gid, ""); return nil })
	return err
}

func (f *facts) rollback(p *Pool, gid string) (err error) {
	do(f.T, p, func(ctx context.Context, c *Conn) error { err = c.RollbackPrepared(ctx, gid); return nil })
	return err
}

// A transaction that has failed is not prepared, and only the tag tells.
func TestPrepareOfFailedTransaction(t *testing.T) {
	f := newFacts(t)
	want(t, "prepare", f.prepare("g", "INSERT INTO t VALUES (1), (1)"), "restart postgres.not_prepared")
}

// Nor is it committed: COMMIT answers ROLLBACK, without an error.
func TestCommitOfFailedTransaction(t *testing.T) {
	p := pool(t, pgtest.Shared(t).NewDatabase(t))
	do(t, p, func(ctx context.Context, c *Conn) error {
		if _, err := c.Simple(ctx, "BEGIN"); err != nil {
			return err
		}
		if _, err := c.Simple(ctx, "SELECT 1/0"); err == nil {
			t.Error("1/0 is a number")
		}
		if err := c.Commit(ctx); err == nil || !strings.Contains(err.Error(), "ROLLBACK") {
			t.Errorf("the commit returned %v", err)
		}
		return nil
	})
}

// Another session commits, once; the one that prepared may be gone.
func TestCommitPreparedElsewhere(t *testing.T) {
	f := newFacts(t)
	f.must(f.prepare("g", "INSERT INTO t VALUES (1)"))
	f.must(f.commit(pool(t, f.dsn), "g"))
	want(t, "again", f.commit(f.p, "g"), "failed "+CodeNoSuchPrepared)
	want(t, "rollback after commit", f.rollback(f.p, "g"), "failed "+CodeNoSuchPrepared)

	f.must(f.prepare("stays", "INSERT INTO t VALUES (7)"))
	f.p.Close()
	f.must(f.commit(pool(t, f.dsn), "stays"))
}

func TestGids(t *testing.T) {
	f := newFacts(t)
	f.must(f.prepare("dup", "INSERT INTO t VALUES (2)"))
	want(t, "duplicate", f.prepare("dup", "INSERT INTO t VALUES (3)"), "failed postgres.prepared_duplicate")
	f.must(f.rollback(f.p, "dup"))

	long := strings.Repeat("g", 199)
	f.must(f.prepare(long, "INSERT INTO t VALUES (4)"))
	f.must(f.rollback(f.p, long))
	if err := f.prepare(long+"g", "INSERT INTO t VALUES (4)"); State(err) != "22023" {
		t.Errorf("200 bytes: %v", err)
	}
}

func TestWhatCannotBePrepared(t *testing.T) {
	f := newFacts(t)
	want(t, "temporary", f.prepare("g", "CREATE TEMP TABLE x (i int)"), "environment postgres.cannot_prepare")
	want(t, "notify", f.prepare("g", "NOTIFY foo"), "environment postgres.cannot_prepare")
	err := f.prepare("g", "INSERT INTO child VALUES (42)") // a deferred constraint speaks at PREPARE
	want(t, "deferred", err, "failed "+CodeRow)
	if Row(err) == nil {
		t.Error("not a row's fault")
	}
	do(t, f.p, func(ctx context.Context, c *Conn) error {
		if err := c.Begin(ctx, time.Second); err != nil {
			return err
		}
		if err := c.CommitPrepared(ctx, "none", ""); State(err) != "25001" {
			t.Errorf("COMMIT PREPARED inside a block: %v", err)
		}
		return nil
	})
}

func TestCommitPreparedFromOtherDatabaseOrRole(t *testing.T) {
	f := newFacts(t)
	f.must(f.prepare("here", "INSERT INTO t VALUES (5)"))
	other := pool(t, f.d.NewDatabase(t))
	want(t, "commit", f.commit(other, "here"), "environment postgres.other_database")
	do(t, other, func(ctx context.Context, c *Conn) error {
		if l, err := c.ListPrepared(ctx, ""); len(l) != 0 || err != nil {
			t.Errorf("listed there: %v %v", l, err)
		}
		return nil
	})
	do(t, f.p, func(ctx context.Context, c *Conn) error {
		if l, err := c.ListPrepared(ctx, "he"); len(l) != 1 || l[0].Owner != "postgres" || l[0].Age < 0 || err != nil {
			t.Errorf("listed here: %v %v", l, err)
		}
		return nil
	})
	want(t, "another role", f.commit(pool(t, role(t, f.p, f.dsn, "stranger")), "here"), "environment "+CodePermission)
	f.must(f.rollback(f.p, "here"))
}

// role makes a log-in role that may connect and nothing else.
func role(t *testing.T, p *Pool, dsn, name string) string {
	t.Helper()
	run(t, p, "DO $$ BEGIN CREATE ROLE "+name+" LOGIN PASSWORD 'pw'; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, "pw")
	return u.String()
}

// A lock held by a prepared transaction is waited for no longer than said: no deadlock
// is ever found, because nobody is there to be found.
func TestLockOfPreparedTransaction(t *testing.T) {
	p := pool(t, pgtest.Shared(t).NewDatabase(t))
	run(t, p, "CREATE TABLE t (i int PRIMARY KEY)")
	do(t, p, func(ctx context.Context, c *Conn) error {
		if err := c.Begin(ctx, time.Second); err != nil {
			return err
		}
		if _, err := c.Exec(ctx, "INSERT INTO t VALUES ($1)", 1); err != nil {
			return err
		}
		return c.PrepareTransaction(ctx, "holder", "")
	})
	do(t, p, func(ctx context.Context, c *Conn) error {
		if err := c.Begin(ctx, 50*time.Millisecond); err != nil {
			return err
		}
		_, err := c.Exec(ctx, "INSERT INTO t VALUES ($1) ON CONFLICT DO NOTHING", 1)
		want(t, "insert", Explain(err, "insert", "t"), "retry "+CodeLocked)
		return nil
	})
	do(t, p, func(ctx context.Context, c *Conn) error { return c.RollbackPrepared(ctx, "holder") })
}

func TestPreparedDisabledAndExhausted(t *testing.T) {
	pgtest.Shared(t) // skips when there is no server to be had
	for setting, expected := range map[string]string{"0": "environment " + CodePreparedDisabled, "1": "retry " + CodeSlotsExhausted} {
		s := pgtest.Start(t, pgtest.Config{Settings: map[string]string{"max_prepared_transactions": setting}})
		p := pool(t, s.NewDatabase(t))
		run(t, p, "CREATE TABLE t (i int)")
		var last error
		for _, gid := range []string{"a", "b"} {
			do(t, p, func(ctx context.Context, c *Conn) error {
				if err := c.Begin(ctx, time.Second); err != nil {
					return err
				}
				if _, err := c.Simple(ctx, "INSERT INTO t VALUES (1)"); err != nil {
					return err
				}
				last = c.PrepareTransaction(ctx, gid, "")
				return nil
			})
		}
		want(t, "max_prepared_transactions = "+setting, last, expected)
		if f := new(stream.Error); !errors.As(last, &f) || !strings.Contains(f.Fix, "max_prepared_transactions") {
			t.Errorf("no fix: %v", last)
		}
		srv, err := p.Inspect(t.Context(), stream.SystemClock{})
		if err != nil || setting == "1" && (srv.MaxPrepared != 1 || srv.Prepared != 1) || srv.Pooled {
			t.Errorf("%+v %v", srv, err)
		}
	}
}

func TestExplainByState(t *testing.T) {
	d := pgtest.Shared(t)
	dsn := d.NewDatabase(t)
	p := pool(t, dsn)
	run(t, p, "CREATE TABLE t (i int PRIMARY KEY, v varchar(3), n numeric(4,2) NOT NULL DEFAULT 0, j jsonb, CHECK (i < 1000))", "INSERT INTO t VALUES (1)")
	for sql, expected := range map[string]string{
		"INSERT INTO none VALUES (1)":                    "environment " + CodeMissing,
		"INSERT INTO none.t VALUES (1)":                  "environment " + CodeMissing,
		"INSERT INTO t (x) VALUES (1)":                   "environment " + CodeMissing,
		"INSERT INTO t VALUES (1)":                       "failed " + CodeRow,
		"INSERT INTO t VALUES (2, 'long')":               "failed " + CodeRow,
		"INSERT INTO t VALUES (2, '', 1000)":             "failed " + CodeRow,
		"INSERT INTO t VALUES (2, '', NULL)":             "failed " + CodeRow,
		"INSERT INTO t VALUES (1000)":                    "failed " + CodeRow,
		`INSERT INTO t VALUES (2, '', 1, '"\u0000"')`:    "failed " + CodeRow,
		"INSERT INTO":                                    "failed postgres.failed",
		"BEGIN READ ONLY; INSERT INTO t VALUES (9)":      "retry " + CodeReadOnly,
		"SET statement_timeout = 10; SELECT pg_sleep(5)": "retry postgres.cancelled",
		"SELECT pg_terminate_backend(pg_backend_pid())":  "retry postgres.shutting_down",
		"DO $$ BEGIN RAISE EXCEPTION 'no'; END $$":       "failed " + CodeRow,
	} {
		do(t, p, func(ctx context.Context, c *Conn) error {
			_, err := c.Simple(ctx, sql)
			want(t, sql, Explain(err, "test", ""), expected)
			c.Break()
			return nil
		})
	}
	stranger := pool(t, role(t, p, dsn, "stranger"))
	do(t, p, func(ctx context.Context, c *Conn) error {
		_, err := c.Simple(ctx, "SELECT 'canary'::int")
		if e := Explain(err, "insert", "t"); strings.Contains(e.Error(), "canary") || State(e) != "22P02" {
			t.Errorf("a value is in the message: %v", e)
		}
		return nil
	})
	do(t, stranger, func(ctx context.Context, c *Conn) error {
		_, err := c.Simple(ctx, "INSERT INTO t VALUES (5)")
		want(t, "without a right", Explain(err, "insert", "t"), "environment "+CodePermission)
		return nil
	})
	for what, c := range map[string]struct{ dsn, expected string }{
		"wrong password": {strings.Replace(dsn, "etl-test", "wrong", 1), "environment postgres.authentication"},
		"no database":    {dsn + "x", "dsn"},
		"nobody there":   {"postgres://postgres@127.0.0.1:1/postgres?sslmode=disable", "retry " + CodeUnreachable},
		"no TLS there":   {strings.Replace(dsn, "sslmode=disable", "sslmode=require", 1), "environment postgres.tls"},
	} {
		if c.expected == "dsn" {
			u, _ := url.Parse(dsn)
			u.Path += "_none"
			c.dsn, c.expected = u.String(), "environment postgres.database"
		}
		err := pool(t, c.dsn).With(t.Context(), func(*Conn) error { return nil })
		want(t, what, err, c.expected)
	}
}

func mustURL(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// A server that ends sessions which idle in a transaction: a transaction of Begin is held
// for as long as a checkpoint takes, a bare one is ended and the error says by what.
func TestIdleInTransaction(t *testing.T) {
	dsn := pgtest.Shared(t).NewDatabase(t)
	run(t, pool(t, dsn), "CREATE TABLE t (i int)",
		"ALTER DATABASE "+Ident(strings.TrimPrefix(mustURL(t, dsn).Path, "/"))+" SET idle_in_transaction_session_timeout = '500ms'")
	p := pool(t, dsn)
	do(t, p, func(ctx context.Context, held *Conn) error {
		if err := held.Begin(ctx, time.Second); err != nil {
			return err
		}
		if _, err := held.Simple(ctx, "INSERT INTO t VALUES (1)"); err != nil {
			return err
		}
		do(t, p, func(ctx context.Context, bare *Conn) error {
			if _, err := bare.Simple(ctx, "BEGIN"); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			_, err := bare.c.Conn().WaitForNotification(ctx) // until the server speaks: it says good-bye
			want(t, "bare", Explain(err, "insert", "t"), "retry postgres.idle_timeout")
			return nil
		})
		if _, err := held.Simple(ctx, "INSERT INTO t VALUES (2)"); err != nil { // idle before the other, and for longer
			return err
		}
		return held.Commit(ctx)
	})
	do(t, p, func(ctx context.Context, c *Conn) error {
		n := 0
		if err := c.QueryRow(ctx, "SELECT count(*)::int FROM t", nil, &n); err != nil || n != 2 {
			t.Errorf("%d rows, %v", n, err)
		}
		return nil
	})
}

// Whoever stands still in a brief transaction loses it, and its locks.
func TestBriefTransaction(t *testing.T) {
	p := pool(t, pgtest.Shared(t).NewDatabase(t))
	run(t, p, "CREATE TABLE t (i int PRIMARY KEY)")
	do(t, p, func(ctx context.Context, stopped *Conn) error {
		if err := stopped.BeginBrief(ctx, time.Minute, 3*time.Second); err != nil {
			return err
		}
		if _, err := stopped.Simple(ctx, "INSERT INTO t VALUES (1)"); err != nil {
			return err
		}
		do(t, p, func(ctx context.Context, c *Conn) error {
			if err := c.Begin(ctx, time.Minute); err != nil {
				return err
			}
			if _, err := c.Simple(ctx, "INSERT INTO t VALUES (1)"); err != nil { // waits until the other is gone
				return err
			}
			return c.Commit(ctx)
		})
		_, err := stopped.Simple(ctx, "INSERT INTO t VALUES (2)")
		want(t, "stopped", Explain(err, "insert", "t"), "retry postgres.idle_timeout")
		return nil
	})
}

// A COPY whose reader fails leaves nothing, and the connection goes on.
func TestCopyThatFails(t *testing.T) {
	p := pool(t, pgtest.Shared(t).NewDatabase(t))
	run(t, p, "CREATE TABLE t (i int)")
	do(t, p, func(ctx context.Context, c *Conn) error {
		broken := io.MultiReader(strings.NewReader("1\n2\n"), failing{})
		if _, err := c.CopyIn(ctx, "COPY t FROM STDIN", broken); err == nil {
			t.Error("no error")
		}
		n, err := c.CopyIn(ctx, "COPY t FROM STDIN", strings.NewReader("1\n2\n"))
		if n != 2 {
			t.Errorf("%d rows", n)
		}
		return err
	})
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("no more") }
