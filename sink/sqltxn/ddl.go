package sqltxn

import (
	"context"
	"fmt"
	"strings"

	"etl/internal/pgconn"
	"etl/stream"
)

// Statement is one statement that sets a database up for a sink. They are run in order by
// a role that may create tables; the job's own role needs no right to. Each may be run
// again.
type Statement struct {
	SQL string
	// Why says what it is for, in a comment before it.
	Why string
}

// Tables are the statements for the books, which all sinks of a database share.
func (b Book) Tables() []Statement {
	own := "job text NOT NULL, sink text NOT NULL, lineage uuid NOT NULL"
	epoch := own + ", subtask int4 NOT NULL, checkpoint int8 NOT NULL"
	return []Statement{
		{"CREATE SCHEMA IF NOT EXISTS " + pgconn.Ident(b.Schema), "the books of etl"},
		{"CREATE TABLE IF NOT EXISTS " + b.table("marker") + " (" + epoch + ", attempt int8 NOT NULL, rows int8 NOT NULL, written_at timestamptz NOT NULL DEFAULT clock_timestamp(), PRIMARY KEY (job, sink, lineage, subtask, checkpoint))",
			"one row per committed epoch, written in its transaction: the proof that it was committed"},
		{"CREATE TABLE IF NOT EXISTS " + b.table("fence") + " (" + own + ", epoch int8 NOT NULL, taken_at timestamptz NOT NULL DEFAULT clock_timestamp(), PRIMARY KEY (job, sink, lineage))",
			"the newest attempt of each sink: transactions of earlier ones are refused"},
		{"CREATE TABLE IF NOT EXISTS " + b.table("staged") + " (" + epoch + ", rows int8 NOT NULL, staged_at timestamptz NOT NULL DEFAULT clock_timestamp(), PRIMARY KEY (job, sink, lineage, subtask, checkpoint))",
			"the epochs that are staged and not merged"},
		{"CREATE TABLE IF NOT EXISTS " + b.table("reject") + " (" + epoch + ", seq int4 NOT NULL, source text NOT NULL, code text NOT NULL, message text NOT NULL, row jsonb NOT NULL, rejected_at timestamptz NOT NULL DEFAULT clock_timestamp(), PRIMARY KEY (job, sink, lineage, subtask, checkpoint, seq))",
			"rows that a table refused after their checkpoint was published"},
	}
}

// StageTableDDL are the statements for the staging table of a sink. Its columns have the
// types of the target's, bounds included, and none of its constraints.
func (b Book) StageTableDDL(g *Target) []Statement {
	cols := []string{"etl_lineage uuid NOT NULL", "etl_checkpoint int8 NOT NULL", "etl_subtask int4 NOT NULL", "etl_seq int4 NOT NULL", `etl_op "char" NOT NULL`, "etl_source text NOT NULL"}
	for _, c := range g.Columns {
		cols = append(cols, pgconn.Ident(c.Name)+" "+c.Declared)
	}
	stage := b.table(b.StageTable())
	return []Statement{
		// Rows come and go with every checkpoint: the table is vacuumed by the number of
		// dead rows, not by a share of what is there.
		{"CREATE TABLE IF NOT EXISTS " + stage + " (" + strings.Join(cols, ", ") + ") WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50000, autovacuum_vacuum_cost_delay = 0)",
			fmt.Sprintf("the staged rows of sink %s of job %s", b.Sink, b.Job)},
		// It costs nothing to keep, and lets a merge pass by the pages of other checkpoints.
		{"CREATE INDEX IF NOT EXISTS " + pgconn.Ident(b.StageTable()+"_brin") + " ON " + stage + " USING brin (etl_checkpoint) WITH (pages_per_range = 32, autosummarize = on)",
			"finds the rows of one checkpoint"},
	}
}

// right is what the job's role needs on a table.
type right struct {
	table string // quoted
	words []string
}

// rights are the least that the job's role needs. staged says whether it stages.
func (b Book) rights(g *Target, staged bool) []right {
	into := right{g.Table.String(), []string{"INSERT"}}
	switch g.Mode {
	case Upsert:
		into.words = []string{"SELECT", "INSERT", "UPDATE"}
	case UpsertDelete:
		into.words = []string{"SELECT", "INSERT", "UPDATE", "DELETE"}
	}
	out := []right{into,
		{b.table("marker"), []string{"SELECT", "INSERT", "DELETE"}},
		{b.table("fence"), []string{"SELECT", "INSERT", "UPDATE"}}, // FOR SHARE wants UPDATE
		{b.table("staged"), []string{"SELECT", "INSERT", "DELETE"}},
	}
	if staged {
		out = append(out, right{b.table("reject"), []string{"SELECT", "INSERT"}}, right{b.table(b.StageTable()), []string{"SELECT", "INSERT", "DELETE"}})
	}
	return out
}

// Grants are the statements that give a role the least rights it needs for a sink,
// strategy staged included.
func (b Book) Grants(g *Target, role string) []Statement { return b.grants(g, role, b.rights(g, true)) }

func (b Book) grants(g *Target, role string, rights []right) (out []Statement) {
	to := " TO " + pgconn.Ident(role)
	for _, schema := range []string{b.Schema, g.Table.Schema} {
		out = append(out, Statement{SQL: "GRANT USAGE ON SCHEMA " + pgconn.Ident(schema) + to, Why: "what the job's role needs, and no more"})
	}
	for _, r := range rights {
		out = append(out, Statement{SQL: "GRANT " + strings.Join(r.words, ", ") + " ON " + r.table + to})
	}
	return out
}

// CheckRights asks for every right before the first row needs it. A table of the books
// that is not there is an error that says so.
func (b Book) CheckRights(ctx context.Context, c *pgconn.Conn, g *Target, staged bool) error {
	return b.checkRights(ctx, c, b.rights(g, staged))
}

func (b Book) checkRights(ctx context.Context, c *pgconn.Conn, rights []right) error {
	var lacking []string
	for _, r := range rights {
		for _, word := range r.words {
			var ok bool
			if err := c.QueryRow(ctx, "SELECT has_table_privilege($1::text, $2::text)", []any{r.table, word}, &ok); err != nil {
				return b.explain(err, "look at rights")
			}
			if !ok {
				lacking = append(lacking, "GRANT "+word+" ON "+r.table)
			}
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	return stream.Errorf(stream.Environment, pgconn.CodePermission, "look at rights", "sink "+string(b.Sink), "the job's role lacks: %s", strings.Join(lacking, "; ")).
		WithFix("etl sink init prints all grants")
}

// Setup are all statements for a sink; role is the job's role, "" when it owns everything.
func (b Book) Setup(g *Target, role string) []Statement {
	out := append(b.Tables(), b.StageTableDDL(g)...)
	if role != "" {
		out = append(out, b.Grants(g, role)...)
	}
	return out
}

// ApplyStatements runs statements.
func ApplyStatements(ctx context.Context, c *pgconn.Conn, statements []Statement) error {
	for _, s := range statements {
		if _, err := c.Simple(ctx, s.SQL); err != nil {
			return pgconn.Explain(err, "set up", s.SQL)
		}
	}
	return nil
}

// CheckStage compares the staging table with the target: a column that was added to one
// and not to the other is found before the first row.
func (b Book) CheckStage(ctx context.Context, c *pgconn.Conn, g *Target) error {
	t, err := LoadTable(ctx, c, b.Schema, b.StageTable())
	if err != nil {
		return b.explain(err, "look at staging table")
	}
	var wrong []string
	for _, col := range g.Columns {
		switch s := t.Column(col.Name); {
		case s == nil:
			wrong = append(wrong, col.Name+" is missing")
		case s.Declared != col.Declared:
			wrong = append(wrong, fmt.Sprintf("%s is %s, the target's is %s", col.Name, s.Declared, col.Declared))
		case s.NotNull:
			wrong = append(wrong, col.Name+" is not null")
		}
	}
	if !t.Logged {
		wrong = append(wrong, "it is not logged")
	}
	if len(wrong) == 0 {
		return nil
	}
	return b.staleStage(t, wrong)
}

func (b Book) staleStage(t *Table, wrong []string) error {
	return stream.Errorf(stream.Environment, "postgres.stage_differs", "look at staging table", t.Schema+"."+t.Name, "it does not fit the target: %s", strings.Join(wrong, "; ")).
		WithFix("stop the job so that nothing is staged, drop the table %s, and run etl sink init again", t)
}
