package torture

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// auditTables checks the tables of a job that has stopped: they are read as anybody reads
// them, and what must be in them is computed from the input.
func (l *Life) auditTables(ctx context.Context) error {
	all, err := l.Broker.ReadAll(ctx, l.job.In())
	if err != nil {
		return fmt.Errorf("read %s: %w", l.job.In(), err)
	}
	a := newAudit(l.Verdict, l.maker, l.job.In(), all[l.job.In()], nil)
	l.Tally.Add(recordsIn, int64(len(a.input)))
	if err := a.copied(ctx, l.Tables, l.Tally); err != nil {
		return err
	}
	got, err := l.Tables.counted(ctx)
	if err != nil {
		return err
	}
	a.stand(got)
	l.tableWatch.Close(l.Verdict)
	l.tableWatch = nil
	return l.checkBooks(ctx)
}

// copied checks the appended rows: those of the input, as a multiset.
func (a *audit) copied(ctx context.Context, d *Tables, t *Tally) error {
	rows, err := d.pool.Query(ctx, "SELECT n, k, x FROM copied")
	if err != nil {
		return err
	}
	var n int64
	var key, text string
	_, err = pgx.ForEachRow(rows, []any{&n, &key, &text}, func() error {
		t.Add(rowsOut, 1)
		p := placeOf(n)
		want := a.input[p]
		switch a.got[p]++; {
		case want == nil:
			a.Add(Stranger, "the table has the row %s, which must not be there", p)
		case key != string(want.Key) || text != payload:
			a.Add(Altered, "the row %s has the key %q and the text %q", p, key, text)
		case a.got[p] > len(want.at):
			a.Add(Duplicated, "the table has the row %s %d times", p, a.got[p])
		}
		return nil
	})
	a.missing(func(p place) int {
		if d.into == Idempotent {
			return 1
		}
		return len(a.input[p].at)
	})
	return err
}

// counted are the upserted rows.
func (d *Tables) counted(ctx context.Context) (map[string]standing, error) {
	rows, err := d.pool.Query(ctx, "SELECT k, c, sum FROM counted")
	if err != nil {
		return nil, err
	}
	got := map[string]standing{}
	var key string
	var s standing
	_, err = pgx.ForEachRow(rows, []any{&key, &s.count, &s.sum}, func() error { got[key] = s; return nil })
	return got, err
}

// stand checks of every key that its last count and sum are those of the input.
func (a *audit) stand(got map[string]standing) {
	want := map[string]standing{}
	for p, r := range a.input {
		s := want[string(r.Key)]
		s.count += int64(len(r.at))
		s.sum += int64(len(r.at)) * p.number()
		want[string(r.Key)] = s
	}
	for key, w := range want {
		switch g := got[key]; {
		case g.count < w.count:
			a.Add(Missing, "key %s was counted %d times, it occurs %d times", key, g.count, w.count)
		case g.count > w.count:
			a.Add(Duplicated, "key %s was counted %d times, it occurs %d times", key, g.count, w.count)
		case g.sum != w.sum:
			a.Add(Counting, "key %s has the sum %d, not %d", key, g.sum, w.sum)
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			a.Add(Stranger, "the key %s is in no record", key)
		}
	}
}

// checkBooks: nothing is prepared, staged or rejected any more, and the markers of each
// lane were written in the order of their checkpoints.
func (l *Life) checkBooks(ctx context.Context) error {
	left := map[string]string{"prepared transactions": "pg_prepared_xacts WHERE database = current_database()"}
	if l.Job.Into.books() {
		left["staged epochs"], left["rejected rows"] = "etl.staged", "etl.reject"
		left["markers written before a lower one"] = `(SELECT checkpoint < lag(checkpoint) OVER (PARTITION BY job, sink, lineage, subtask ORDER BY written_at) AS back FROM etl.marker) m WHERE back`
		tables, err := l.Tables.pool.Query(ctx, "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname = 'etl' AND tablename LIKE 'stage\\_%'")
		if err != nil {
			return err
		}
		names, err := pgx.CollectRows(tables, pgx.RowTo[string])
		if err != nil {
			return err
		}
		if l.Job.Into == Staged && len(names) != 2 {
			return fmt.Errorf("two sinks have the staging tables %v", names)
		}
		for _, name := range names {
			left["staged rows in "+name] = name
		}
	}
	for what, from := range left {
		n, err := l.Tables.number(ctx, "SELECT count(*) FROM "+from)
		if err != nil {
			return fmt.Errorf("count %s: %w", what, err)
		}
		if n > 0 {
			l.Add(Leftovers, "%d %s after the job has stopped", n, what)
		}
	}
	return nil
}
