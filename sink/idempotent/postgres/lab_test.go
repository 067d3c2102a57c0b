package postgres

import (
	"bytes"
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"etl/internal/pgtest"
	"etl/sink"
	"etl/sink/idempotent"
	"etl/sink/idempotent/storetest"
	"etl/sink/sinktest"
	"etl/sink/sqltxn/sqltest"
	"etl/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Runner(m)) }

// lab is a database with a table of keys and numbers, and the sink in front of it.
type lab struct {
	testing.TB
	cfg  Config
	pool *pgxpool.Pool // the test's own
}

// newLab makes a database on a server. shape changes the sink's configuration.
func newLab(t testing.TB, d *pgtest.Database, shape func(*Config)) *lab {
	t.Helper()
	dsn := d.NewDatabase(t)
	p, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	l := &lab{TB: t, pool: p, cfg: Config{Conn: sqltest.Conn(t, dsn), Table: "out", Key: []string{"k"},
		Columns: []string{"k", "n"}, Encoder: sqltest.Encoder, OnError: idempotent.DeadLetter}}
	if shape != nil {
		shape(&l.cfg)
	}
	l.exec("CREATE TABLE out (k text PRIMARY KEY, n int8 CHECK (n >= 0))")
	if ddl := l.cfg.DDL(); ddl != "" {
		l.exec(ddl)
	}
	return l
}

func (l *lab) exec(sql string, args ...any) { l.Helper(); sqltest.Exec(l, l.pool, sql, args...) }

// read returns the rows that readers see.
func (l *lab) read(ctx context.Context) ([]sinktest.Row, error) {
	rows, err := l.pool.Query(ctx, "SELECT k, n FROM out ORDER BY n")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (out sinktest.Row, err error) { return out, r.Scan(&out.Key, &out.N) })
}

// harness is the lab as the suite of all sinks takes it.
func (l *lab) harness() *sinktest.Harness {
	return &sinktest.Harness{
		Connect: func(p sinktest.Process) sink.Connector {
			cfg := l.cfg
			cfg.Policy, cfg.Conn.Dial = p.Policy, p.World.Dial
			return New(cfg)
		},
		Read:       l.read,
		Record:     storetest.Record,
		BadAtWrite: func(b *stream.Batch, r *stream.Record) { r.Value = b.Copy([]byte("x" + string(r.Value))) },
		BadInFinish: func(b *stream.Batch, r *stream.Record) {
			r.Value = b.Copy(append([]byte("-"), bytes.TrimPrefix(r.Value, []byte("-"))...))
		},
	}
}

// guards are the ways the sink can be used.
var guards = map[string]func(*Config){
	"counter":  nil,
	"position": func(c *Config) { c.Guard = idempotent.Position },
}
