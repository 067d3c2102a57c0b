package postgres

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"etl/internal/pgtest"
	"etl/sink"
	"etl/sink/sinktest"
	"etl/sink/sqltxn"
	"etl/sink/sqltxn/sqltest"
	"etl/state"
	"etl/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Runner(m)) }

// lab is an empty database with a table of keys and numbers, and the sink in front of it.
type lab struct {
	testing.TB
	cfg  Config
	pool *pgxpool.Pool // the test's own
}

func newLab(t testing.TB, d *pgtest.Database, shape func(*Config)) *lab {
	t.Helper()
	dsn := d.NewDatabase(t)
	l := &lab{TB: t, cfg: Config{Conn: sqltest.Conn(t, dsn), Table: "out", Columns: []string{"k", "n"}, SpillDir: t.TempDir(), Encoder: sqltest.Encoder}}
	if shape != nil {
		shape(&l.cfg)
	}
	p, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	l.pool = p
	t.Cleanup(p.Close)
	l.exec("CREATE DOMAIN natural_number AS int8 CHECK (VALUE >= 0); CREATE TABLE out (k text NOT NULL, n natural_number)")
	if l.cfg.Mode != "" && l.cfg.Mode != sqltxn.Append {
		l.exec("ALTER TABLE out ADD PRIMARY KEY (k)")
	}
	return l
}

func (l *lab) exec(sql string, args ...any) { l.Helper(); sqltest.Exec(l, l.pool, sql, args...) }

// text returns what a query gives, as text.
func (l *lab) text(sql string, args ...any) string {
	l.Helper()
	return sqltest.Text(l, l.pool, sql, args...)
}

// variants are the ways the sink can be used.
var variants = map[string]func(*Config){
	"append":        nil,
	"upsert_delete": func(c *Config) { c.Mode, c.Key = sqltxn.UpsertDelete, []string{"k"} },
}

// TestConformance runs the suite of all sinks.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes minutes")
	}
	// Only processes are killed here, and what a process has written outlives it: syncing
	// would take most of the time and prove nothing.
	// Histories leave their connections until the last one has ended.
	d := pgtest.Start(t, pgtest.Config{Settings: map[string]string{"fsync": "off", "max_connections": "500"}})
	runs, places := 3, 2
	if os.Getenv("ETL_SLOW") != "" {
		runs, places = 100, 40
	}
	for name, shape := range variants {
		t.Run(name, func(t *testing.T) {
			sinktest.Run(t, sinktest.Suite{Runs: runs, Steps: 30, Places: places, Patience: time.Minute, New: func(t testing.TB) *sinktest.Harness {
				return harness(newLab(t, d, shape))
			}})
		})
	}
}

// A server that is killed with kill -9 keeps what is delivered.
func TestConformanceOfKilledServer(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts a server three times")
	}
	d := pgtest.Start(t, pgtest.Config{})
	sinktest.Run(t, sinktest.Suite{Patience: 3 * time.Minute, Only: "the outside dies", New: func(t testing.TB) *sinktest.Harness {
		h := harness(newLab(t, d, nil))
		h.Kill, h.Restart = d.Server.Kill, d.Server.Restart
		return h
	}})
}

func harness(l *lab) *sinktest.Harness {
	return &sinktest.Harness{
		Connect: func(p sinktest.Process) sink.Connector {
			cfg := l.cfg
			cfg.Parallelism = p.Parallelism
			cfg.Conn.Dial = p.World.Dial
			return initialising{New(cfg), l}
		},
		Read: func(ctx context.Context) (rows []sinktest.Row, err error) {
			for {
				if rows, err = l.read(ctx); err == nil || ctx.Err() != nil {
					return rows, err
				}
				l.pool.Reset() // connections of a server that was killed
			}
		},
		BadAtWrite: func(b *stream.Batch, r *stream.Record) { r.Value = b.Copy([]byte("x" + string(r.Value))) },
	}
}

func (l *lab) read(ctx context.Context) ([]sinktest.Row, error) {
	rows, err := l.pool.Query(ctx, "SELECT k, n FROM out ORDER BY n")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (out sinktest.Row, err error) {
		return out, r.Scan(&out.Key, &out.N)
	})
}

// initialising sets the database up for whatever the suite calls its jobs and sinks, as
// somebody would have done before.
type initialising struct {
	sink.Connector
	l *lab
}

type initialisingWriter struct {
	sink.Writer
	l *lab
}

type initialisingCommitter struct {
	sink.Committer
	l *lab
}

func (s initialising) NewWriter() sink.Writer {
	return initialisingWriter{s.Connector.NewWriter(), s.l}
}

func (s initialising) NewCommitter() sink.Committer {
	return initialisingCommitter{s.Connector.NewCommitter(), s.l}
}

func (w initialisingWriter) Open(ctx context.Context, env stream.Env, restored []state.Handle) error {
	err := w.l.cfg.Initialise(ctx, stream.SystemWorld(nil), env.Job, env.UID, "")
	return errors.Join(err, w.Writer.Open(ctx, env, restored))
}

func (c initialisingCommitter) Open(ctx context.Context, env sink.CommitEnv) error {
	err := c.l.cfg.Initialise(ctx, stream.SystemWorld(nil), env.Job, env.UID, "")
	return errors.Join(err, c.Committer.Open(ctx, env))
}
