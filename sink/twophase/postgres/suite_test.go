package postgres

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"etl/checkpoint"
	"etl/internal/pgtest"
	"etl/sink"
	"etl/sink/sinktest"
	"etl/state"
	"etl/stream"
)

// TestConformance runs the suite of all sinks, for each way of using this one, on a server
// that it may kill.
func TestConformance(t *testing.T) {
	// Only processes are killed here, and what a process has written outlives it: syncing
	// would take most of the time and prove nothing.
	d := pgtest.Start(t, pgtest.Config{Settings: map[string]string{"fsync": "off"}})
	for name, shape := range variants {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) { conform(t, d, shape) })
	}
	t.Run("at-least-once", func(t *testing.T) {
		conform(t, d, func(c *Config) { c.Mode, c.Key, c.Policy.Mode = Upsert, []string{"k"}, checkpoint.AtLeastOnce })
	})
}

func conform(t *testing.T, d *pgtest.Database, shape func(*Config)) {
	runs, steps, places := 1, 50, 1
	if os.Getenv("ETL_SLOW") != "" {
		runs, steps, places = 15, 60, 6
	}
	p := newSite(t, d)
	sinktest.Run(t, sinktest.Suite{Runs: runs, Steps: steps, Places: places, New: func(t testing.TB) *sinktest.Harness {
		return harness(p.lab(t, shape), d)
	}})
}

func harness(l *lab, d *pgtest.Database) *sinktest.Harness {
	return &sinktest.Harness{
		Job: l.job,
		Connect: func(p sinktest.Process) sink.Connector {
			cfg := l.cfg
			cfg.Parallelism = p.Parallelism
			mode := cfg.Policy.Mode
			cfg.Policy = p.Policy
			if mode != "" {
				cfg.Policy.Mode = mode
			}
			cfg.Conn.Dial = p.World.Dial
			return initialising{New(cfg), l}
		},
		Read: func(ctx context.Context) ([]sinktest.Row, error) {
			return patiently(l, func() ([]sinktest.Row, error) { return l.rows(ctx) })
		},
		InDoubt: func(ctx context.Context) ([]string, error) {
			return patiently(l, func() ([]string, error) { return l.inDoubt(ctx) })
		},
		BadAtWrite:  func(b *stream.Batch, r *stream.Record) { r.Value = b.Copy([]byte("x" + string(r.Value))) },
		BadInFinish: spoil,
		Kill:        d.Server.Kill,
		Restart:     d.Server.Restart,
	}
}

// rows are what readers see.
func (l *lab) rows(ctx context.Context) ([]sinktest.Row, error) {
	rows, err := l.pool.Query(ctx, "SELECT k, n FROM "+l.cfg.Table+" ORDER BY n")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (out sinktest.Row, err error) {
		return out, r.Scan(&out.Key, &out.N)
	})
}

// patiently asks once more with fresh connections: those of before die with the server.
func patiently[T any](l *lab, f func() (T, error)) (T, error) {
	v, err := f()
	if err != nil {
		l.pool.Reset()
		v, err = f()
	}
	return v, err
}

// initialising sets the database up for whatever the suite calls its jobs and sinks, as
// somebody would have done before.
type initialising struct {
	*Sink
	l *lab
}

type initialisingWriter struct {
	sink.Writer
	l *lab
}

func (s initialising) NewWriter() sink.Writer { return initialisingWriter{s.Sink.NewWriter(), s.l} }

func (w initialisingWriter) Open(ctx context.Context, env stream.Env, restored []state.Handle) error {
	var err error
	if _, done := w.l.ready.LoadOrStore(env.Job+"/"+string(env.UID), true); !done {
		err = New(w.l.cfg).Initialise(ctx, stream.SystemWorld(nil), env.Job, env.UID, "")
	}
	return errors.Join(err, w.Writer.Open(ctx, env, restored))
}
