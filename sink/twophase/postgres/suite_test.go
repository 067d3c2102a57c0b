package postgres

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

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
	if testing.Short() {
		t.Skip("it takes minutes")
	}
	d := pgtest.Start(t, pgtest.Config{})
	for name, shape := range variants {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) { conform(t, d, shape) })
	}
	t.Run("at-least-once", func(t *testing.T) {
		conform(t, d, func(c *Config) { c.Mode, c.Key, c.Policy.Mode = Upsert, []string{"k"}, checkpoint.AtLeastOnce })
	})
}

func conform(t *testing.T, d *pgtest.Database, shape func(*Config)) {
	runs := 12
	if os.Getenv("ETL_LONG") != "" {
		runs = 100
	}
	sinktest.Run(t, sinktest.Suite{Runs: runs, Places: 12, Patience: 30 * time.Second, New: func(t testing.TB) *sinktest.Harness {
		return harness(t, d, shape)
	}})
}

func harness(t testing.TB, d *pgtest.Database, shape func(*Config)) *sinktest.Harness {
	l := newLab(t, d, shape)
	h := &sinktest.Harness{
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
			rows, err := l.pool.Query(ctx, "SELECT k, n FROM out ORDER BY n")
			if err != nil {
				return nil, err
			}
			return pgx.CollectRows(rows, func(r pgx.CollectableRow) (out sinktest.Row, err error) {
				return out, r.Scan(&out.Key, &out.N)
			})
		},
		InDoubt:     l.inDoubt,
		BadAtWrite:  func(b *stream.Batch, r *stream.Record) { r.Value = b.Copy([]byte("x" + string(r.Value))) },
		BadInFinish: spoil,
		Kill:        d.Server.Kill,
		Restart:     d.Server.Restart,
	}
	return h
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
	err := New(w.l.cfg).Initialise(ctx, stream.SystemWorld(nil), env.Job, env.UID, "")
	return errors.Join(err, w.Writer.Open(ctx, env, restored))
}
