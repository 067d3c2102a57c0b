package torture

import (
	"context"
	"fmt"
	"testing"
	"time"

	"etl/internal/pgtest"
	"etl/internal/testservice"
)

// tableServer is the server that all jobs share which write tables and whose server
// lives. What it wrote is with the kernel when a worker dies: it need not reach the disk.
var tableServer testservice.Shared[*pgtest.Server]

func sharedServer(t *testing.T) *pgtest.Server {
	t.Helper()
	s, err := tableServer.Get(t, func(ctx context.Context) (*pgtest.Server, error) {
		return pgtest.Run(ctx, pgtest.Config{Via: testservice.ViaProcess, Settings: map[string]string{"fsync": "off", "full_page_writes": "off", "max_prepared_transactions": "128", "max_connections": "300"}})
	})
	if err != nil {
		testservice.Skip(t, pgtest.Tier, "%v", err)
	}
	return s
}

// tableScenario is what a part does with a job that writes tables.
type tableScenario func(ctx context.Context, e *Episode) (*Tally, Verdict, error)

// onTables runs a part on a database of its own and an in-process broker. server says
// where the database is.
func onTables(t *testing.T, name string, rank int, into Strategy, server func(context.Context) (*pgtest.Server, error), f tableScenario) {
	t.Helper()
	onFake(t, name, rank, func(ctx context.Context, b *Broker, dir string, seed uint64) (*Tally, Verdict, error) {
		s, err := server(ctx)
		if err != nil {
			return nil, Verdict{}, err
		}
		d, err := NewTables(ctx, s, into, b.password)
		if err != nil {
			return nil, Verdict{}, err
		}
		defer d.Close()
		e, err := episode(b, Count, dir, seed, 0)
		if err != nil {
			return nil, Verdict{}, err
		}
		e.Tables, e.Job.Into, e.Job.Interval, e.Scratch = d, into, tableInterval, false
		e.Patience = 6 * time.Second
		e.Points = pointsOf(into)
		return f(ctx, e)
	})
}

// onShared is the server of jobs that do not kill it.
func onShared(t *testing.T) func(context.Context) (*pgtest.Server, error) {
	t.Helper()
	s := sharedServer(t)
	return func(context.Context) (*pgtest.Server, error) { return s, nil }
}

// Workers that write tables die at every point of their sinks and at random times.
func TestTableKills(t *testing.T) {
	t.Parallel()
	rounds, each := 2, 52
	if testing.Short() {
		rounds, each = 1, 10
	}
	if *longFlag {
		rounds *= longer
	}
	for round := range rounds {
		for i, s := range Strategies {
			onTables(t, fmt.Sprintf("%s-%d", s, round), rankKills, s, onShared(t), func(ctx context.Context, e *Episode) (*Tally, Verdict, error) {
				n := len(e.Points)
				e.Kills, e.Turn = count(each), int(suite.Seed%uint64(n))+round*((n+1)/2)+i*n/len(Strategies)
				return e.Run(ctx)
			})
		}
	}
}

// PostgreSQL dies under the jobs: at its work, and at any time.
func TestDyingPostgres(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("in the full run")
	}
	for _, s := range Strategies {
		onMortalTables(t, string(s), rankKills, s, func(ctx context.Context, l *Life) error {
			return l.KillServer(ctx, l.Tables.mortal(), 6, tableAims[s])
		})
	}
}

// onMortalTables runs a part on a server of its own, which may be killed.
func onMortalTables(t *testing.T, name string, rank int, into Strategy, f func(ctx context.Context, l *Life) error) {
	t.Helper()
	sharedServer(t) // whether there is one at all
	var own *pgtest.Server
	start := func(ctx context.Context) (s *pgtest.Server, err error) {
		own, err = pgtest.Run(ctx, pgtest.Config{Via: testservice.ViaProcess})
		return own, err
	}
	onTables(t, name, rank, into, start, func(ctx context.Context, e *Episode) (*Tally, Verdict, error) {
		defer own.Stop() //nolint:errcheck // it has nothing to lose
		return e.live(ctx, f)
	})
}

// Messages between the jobs and PostgreSQL are lost: the answer to a statement that was
// carried out, and the statement itself.
func TestLostMessages(t *testing.T) {
	t.Parallel()
	for _, s := range Strategies {
		n := 6 / len(Cuts[s])
		if testing.Short() {
			if n = 1; s != Prepared {
				continue
			}
		}
		onTables(t, string(s), rankKills, s, onShared(t), func(ctx context.Context, e *Episode) (*Tally, Verdict, error) {
			if err := e.Tables.Through(e.Broker.password); err != nil {
				return nil, Verdict{}, err
			}
			return e.live(ctx, func(ctx context.Context, l *Life) error { return l.LoseMessages(ctx, n) })
		})
	}
}
