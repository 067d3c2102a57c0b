package postgres

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"etl/internal/pgtest"
	"etl/sink/sqltxn"
	"etl/sink/sqltxn/sqltest"
	"etl/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Runner(m)) }

// lab is a table of keys and numbers, and the sink in front of it.
type lab struct {
	testing.TB
	dsn  string
	job  string
	cfg  Config
	pool *pgxpool.Pool // the test's own

	ready sync.Map // jobs and sinks that are set up, besides the first
}

// site is a database whose labs do not meet: each has a table and a job of its own.
type site struct {
	dsn  string
	pool *pgxpool.Pool
	labs int
}

// domain is a type that refuses negative numbers, in the staging table, too.
const domain = "CREATE DOMAIN natural_number AS int8 CHECK (VALUE >= 0)"

func newSite(t testing.TB, d *pgtest.Database) *site {
	t.Helper()
	p := &site{dsn: d.NewDatabase(t)}
	var err error
	if p.pool, err = pgxpool.New(t.Context(), p.dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.pool.Close)
	if _, err := p.pool.Exec(t.Context(), domain); err != nil {
		t.Fatal(err)
	}
	return p
}

// newLab makes a database on a server. shape changes the sink's configuration.
func newLab(t testing.TB, d *pgtest.Database, shape func(*Config)) *lab {
	t.Helper()
	return newSite(t, d).lab(t, shape)
}

func (p *site) lab(t testing.TB, shape func(*Config)) *lab {
	t.Helper()
	p.labs++
	name := fmt.Sprintf("out%d", p.labs)
	l := &lab{TB: t, dsn: p.dsn, pool: p.pool, job: fmt.Sprintf("job%dz", p.labs),
		cfg: Config{Conn: sqltest.Conn(t, p.dsn), Table: name, Columns: []string{"k", "n"}, SpillDir: t.TempDir(), Encoder: sqltest.Encoder, OnError: Skip}}
	if shape != nil {
		shape(&l.cfg)
	}
	key := ""
	if l.cfg.Mode != "" && l.cfg.Mode != Append {
		key = ", PRIMARY KEY (k)"
	}
	l.exec("CREATE TABLE " + name + " (k text NOT NULL, n natural_number" + key + ")")
	l.initialise(l.job, "out")
	return l
}

func (l *lab) initialise(job string, uid stream.UID) {
	l.Helper()
	if err := New(l.cfg).Initialise(l.Context(), stream.SystemWorld(nil), job, uid, ""); err != nil {
		l.Fatal(err)
	}
}

func (l *lab) exec(sql string, args ...any) { l.Helper(); sqltest.Exec(l, l.pool, sql, args...) }

// text returns what a query gives, as text.
func (l *lab) text(sql string, args ...any) string {
	l.Helper()
	return sqltest.Text(l, l.pool, sql, args...)
}

// gids are the prepared transactions of the database, staged the staged sets.
func (l *lab) inDoubt(ctx context.Context) (out []string, err error) {
	rows, err := l.pool.Query(ctx, "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")
	if err != nil {
		return nil, err
	}
	if out, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return nil, err
	}
	out = slices.DeleteFunc(out, func(gid string) bool { return !strings.Contains(gid, ":"+l.job) })
	rows, err = l.pool.Query(ctx, "SELECT job, sink, left(lineage::text, 8), subtask, checkpoint FROM etl.staged WHERE starts_with(job, $1)", l.job)
	if err != nil {
		return nil, err
	}
	var job, sink, lineage string
	var sub, id int64
	_, err = pgx.ForEachRow(rows, []any{&job, &sink, &lineage, &sub, &id}, func() error {
		b := sqltxn.Book{Schema: "etl", Names: sqltxn.Names{Job: job, Sink: stream.UID(sink)}}
		out = append(out, fmt.Sprintf("etl.%s:%s:%d:%s", b.StageTable(), lineage, sub, stream.CheckpointID(id)))
		return nil
	})
	return out, err
}

// spoil makes the value negative, which the server refuses.
func spoil(b *stream.Batch, r *stream.Record) {
	r.Value = b.Copy(append([]byte("-"), bytes.TrimPrefix(r.Value, []byte("-"))...))
}

// variants are the ways the sink can be used.
var variants = map[string]func(*Config){
	"prepared append": func(c *Config) { c.Strategy = Prepared },
	"prepared upsert": func(c *Config) { c.Strategy, c.Mode, c.Key = Prepared, Upsert, []string{"k"} },
	"staged append":   func(c *Config) { c.Strategy = Staged },
	"staged upsert":   func(c *Config) { c.Strategy, c.Mode, c.Key = Staged, UpsertDelete, []string{"k"} },
}
