package sqltxn

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"etl/internal/fault"
	"etl/internal/pgconn"
	"etl/stream"
)

// Merge says how a staged epoch gets into its target. It is plain data, part of the
// committable: a restart finishes it whatever has become of the pipeline file.
type Merge struct {
	// Schema and Table are the target; Book is the schema of the books, Stage the staging
	// table there.
	Schema string `json:"schema"`
	Table  string `json:"table"`
	Book   string `json:"book"`
	Stage  string `json:"stage"`
	Mode   Mode   `json:"mode"`
	// Columns are the target's, those of the key first; Key is their number.
	Columns []string `json:"columns"`
	Key     int      `json:"key"`
	// Reduced says that no key has more than one row.
	Reduced bool `json:"reduced"`
}

// Check refuses what no writer of ours can have meant.
func (m *Merge) Check() error {
	for _, n := range append([]string{m.Schema, m.Table, m.Book, m.Stage}, m.Columns...) {
		if err := CheckName(n); err != nil {
			return err
		}
	}
	switch {
	case m.Mode != Append && m.Mode != Upsert && m.Mode != UpsertDelete:
		return fmt.Errorf("mode %q is unknown", m.Mode)
	case len(m.Columns) == 0 || m.Key < 0 || m.Key > len(m.Columns) || m.Mode != Append && m.Key == 0:
		return fmt.Errorf("%d columns with a key of %d", len(m.Columns), m.Key)
	}
	return nil
}

// MergeOf returns how the epochs of a target are merged.
func (b Book) MergeOf(g *Target, reduced bool) Merge {
	return Merge{Schema: g.Table.Schema, Table: g.Table.Name, Book: b.Schema, Stage: b.StageTable(), Mode: g.Mode, Columns: names(g.Columns), Key: g.Key, Reduced: reduced}
}

// target is the part of a Target that statements need.
func (m *Merge) target() *Target {
	g := &Target{Table: &Table{Schema: m.Schema, Name: m.Table}, Mode: m.Mode, Key: m.Key}
	for _, n := range m.Columns {
		g.Columns = append(g.Columns, &Column{Name: n})
	}
	return g
}

// statements are what moves the rows of an epoch for which where holds: deletes, then
// rows.
func (m *Merge) statements(where string) []string {
	g := m.target()
	stage, into := pgconn.Ident(m.Book, m.Stage), g.Table.String()
	columns := quoted(g.Columns)
	if m.Mode == Append {
		return []string{"INSERT INTO " + into + " (" + columns + ") SELECT " + columns + " FROM " + stage + " WHERE" + where}
	}
	key := quoted(g.Columns[:g.Key])
	last := "SELECT " + columns + ", etl_op FROM " + stage + " WHERE" + where
	if !m.Reduced {
		last = "SELECT DISTINCT ON (" + key + ") " + columns + ", etl_op FROM " + stage + " WHERE" + where + "ORDER BY " + key + ", etl_seq DESC"
	}
	insert := "INSERT INTO " + into + " (" + columns + ") SELECT " + columns + " FROM (" + last + ") AS s WHERE etl_op = 'U'" + g.conflict()
	if m.Mode == Upsert {
		return []string{insert}
	}
	return []string{"DELETE FROM " + into + " AS t USING (" + last + ") AS s WHERE s.etl_op = 'D' AND " + g.same("t", "s"), insert}
}

// Merged is how the application of a staged epoch ended.
type Merged uint8

// The ends.
const (
	// Applied: this call did it.
	Applied Merged = iota
	// Before: the marker was there.
	Before
	// Vanished: there is no marker, and the rows are not there, or not all.
	Vanished
)

// Application is one staged epoch to be merged.
type Application struct {
	Merge   *Merge
	Subtask int
	ID      stream.CheckpointID
	Rows    int64
	// Attempt is the one that merges, or recovers.
	Attempt     stream.Attempt
	LockTimeout time.Duration
	// Sort says that rows which the target refuses go to the reject table; without it
	// they are an error.
	Sort bool
}

// Apply merges a staged epoch in one transaction: {fence, marker, staged row taken, rows
// moved, rows that cannot be moved to the reject table} COMMIT. Whoever applies the same
// epoch at the same time waits at the marker and then finds it there. rejected is the
// number of rows that went to the reject table.
func (b Book) Apply(ctx context.Context, c *pgconn.Conn, a Application) (m Merged, rejected int, err error) {
	m, err = b.apply(ctx, c, a, nil)
	if err == nil || pgconn.Row(err) == nil || !a.Sort {
		return m, 0, err
	}
	bad, err := b.siftMerge(ctx, c, a)
	if err != nil {
		return m, 0, err
	}
	m, err = b.apply(ctx, c, a, bad)
	return m, len(bad), err
}

// badSeq is a staged row that the target refuses.
type badSeq struct {
	seq int32
	err error
}

func (b Book) apply(ctx context.Context, c *pgconn.Conn, a Application, bad []badSeq) (m Merged, err error) {
	fault.Point("postgres.merge.before")
	if err := c.Begin(ctx, a.LockTimeout); err != nil {
		return m, b.explain(err, "merge staged rows")
	}
	defer c.Rollback(ctx)
	if err := b.Fence(ctx, c, a.Attempt, false); err != nil {
		return m, err
	}
	inserted, err := b.Mark(ctx, c, a.Subtask, a.ID, a.Rows-int64(len(bad)))
	if err != nil || !inserted {
		return Before, err
	}
	if n, ok, err := b.takeSet(ctx, c, a.Subtask, a.ID); err != nil || !ok || n != a.Rows {
		return Vanished, err
	}
	if err := b.move(ctx, c, a, bad); err != nil {
		return m, err
	}
	n, err := b.deleteSet(ctx, c, pgconn.Ident(a.Merge.Book, a.Merge.Stage), a.Subtask, a.ID)
	if err != nil || n != a.Rows {
		return Vanished, err
	}
	fault.Point("postgres.merge.merged")
	if err := c.CommitAt(ctx, "postgres.merge.sent"); err != nil {
		return m, b.explain(err, "merge staged rows")
	}
	fault.Point("postgres.merge.after")
	return Applied, nil
}

// move moves the rows but the bad ones, which it notes.
func (b Book) move(ctx context.Context, c *pgconn.Conn, a Application, bad []badSeq) error {
	where, args := set, b.args(a)
	if len(bad) > 0 {
		where += "AND etl_seq <> ALL($4::int4[]) "
		args = append(args, seqs(bad))
	}
	for _, sql := range a.Merge.statements(where) {
		if _, err := c.Exec(ctx, sql, args...); err != nil {
			return b.explain(err, "merge staged rows")
		}
	}
	for _, s := range bad {
		if err := b.note(ctx, c, a, s); err != nil {
			return err
		}
	}
	return nil
}

func (b Book) args(a Application) []any {
	return []any{b.Lineage.String(), int64(a.ID), int32(a.Subtask)}
}

func seqs(bad []badSeq) []int32 {
	out := make([]int32, len(bad))
	for i, s := range bad {
		out[i] = s.seq
	}
	return out
}

// note puts a row that the target refuses into the reject table.
func (b Book) note(ctx context.Context, c *pgconn.Conn, a Application, s badSeq) error {
	row := pgconn.Row(s.err)
	sql := "INSERT INTO " + b.table("reject") + " (job, sink, lineage, subtask, checkpoint, seq, source, code, message, row) " +
		"SELECT $4, $5, etl_lineage, etl_subtask, etl_checkpoint, etl_seq, etl_source, $6, $7, to_jsonb(s) - '{" + strings.ReplaceAll(stageColumns, " ", "") + "}'::text[] " +
		"FROM " + pgconn.Ident(a.Merge.Book, a.Merge.Stage) + " AS s WHERE" + set + "AND etl_seq = $8"
	n, err := c.Exec(ctx, sql, append(b.args(a), b.Job, string(b.Sink), row.Code, (&pgconn.RowError{Answer: row}).Error(), s.seq)...)
	if err == nil && n != 1 {
		return fmt.Errorf("%d rows went to the reject table instead of one", n)
	}
	return b.explain(err, "note a rejected row")
}

// siftMerge finds the staged rows that the target refuses, in a transaction that is
// rolled back, halving as sift does.
func (b Book) siftMerge(ctx context.Context, c *pgconn.Conn, a Application) ([]badSeq, error) {
	if err := c.Begin(ctx, a.LockTimeout); err != nil {
		return nil, b.explain(err, "look for bad rows")
	}
	defer c.Rollback(ctx)
	if err := b.Fence(ctx, c, a.Attempt, false); err != nil {
		return nil, err
	}
	var lo, hi int32
	err := c.QueryRow(ctx, "SELECT coalesce(min(etl_seq), 0), coalesce(max(etl_seq), -1) FROM "+pgconn.Ident(a.Merge.Book, a.Merge.Stage)+" WHERE"+set, b.args(a), &lo, &hi)
	if err != nil {
		return nil, b.explain(err, "look for bad rows")
	}
	s := &mergeSifter{b: b, c: c, a: a, sql: a.Merge.statements(set + "AND etl_seq >= $4 AND etl_seq < $5 ")}
	err = s.try(ctx, lo, hi+1)
	return s.bad, b.explain(err, "look for bad rows")
}

type mergeSifter struct {
	b   Book
	c   *pgconn.Conn
	a   Application
	sql []string
	bad []badSeq
}

func (s *mergeSifter) try(ctx context.Context, lo, hi int32) error {
	if lo == hi {
		return nil
	}
	if _, err := s.c.Simple(ctx, "SAVEPOINT sift"); err != nil {
		return err
	}
	err := s.move(ctx, lo, hi)
	if err == nil {
		_, err = s.c.Simple(ctx, "RELEASE SAVEPOINT sift")
		return err
	}
	if pgconn.Row(err) == nil {
		return err
	}
	if _, err := s.c.Simple(ctx, "ROLLBACK TO SAVEPOINT sift; RELEASE SAVEPOINT sift"); err != nil {
		return err
	}
	if hi-lo == 1 {
		s.bad = append(s.bad, badSeq{lo, err})
		if len(s.bad) > maxBad {
			return stream.Errorf(stream.Failed, "postgres.too_many_bad_rows", "look for bad rows", s.a.ID.String(), "the target refuses more than %d rows of one checkpoint; the last one: %w", maxBad, pgconn.Explain(err, "", "")).
				WithFix("mend the table; the rows stay staged until then")
		}
		return nil
	}
	mid := lo + (hi-lo)/2
	if err := s.try(ctx, lo, mid); err != nil {
		return err
	}
	return s.try(ctx, mid, hi)
}

func (s *mergeSifter) move(ctx context.Context, lo, hi int32) error {
	for _, sql := range s.sql {
		if _, err := s.c.Exec(ctx, sql, append(slices.Clip(s.b.args(s.a)), lo, hi)...); err != nil {
			return err
		}
	}
	_, err := s.c.Simple(ctx, "SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
	return err
}
