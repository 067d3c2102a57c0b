package sqltxn

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"etl/internal/fault"
	"etl/internal/pgconn"
	"etl/stream"
)

// stageColumns come before those of the target in a staging table.
const stageColumns = "etl_lineage, etl_checkpoint, etl_subtask, etl_seq, etl_op, etl_source"

// stageExtra is their number.
const stageExtra = 6

// stageWriter copies rows into the staging table.
type stageWriter struct {
	copy   string
	prefix []byte // the fields that all rows of the epoch share
	base   int    // rows of chunks before
}

func (b Book) stageWriter(g *Target, subtask int, id stream.CheckpointID) *stageWriter {
	w := &stageWriter{copy: "COPY " + b.table(b.StageTable()) + " (" + stageColumns + ", " + quoted(g.Columns) + ") FROM STDIN (FORMAT binary)"}
	w.prefix = append(be.AppendUint32(w.prefix, 16), b.Lineage[:]...)
	w.prefix = be.AppendUint64(be.AppendUint32(w.prefix, 8), uint64(id))
	w.prefix = be.AppendUint32(be.AppendUint32(w.prefix, 4), uint32(subtask))
	return w
}

// write copies rows lo to hi of a chunk. Chunks come in order, so that etl_seq is the
// order of the rows in the epoch.
func (w *stageWriter) write(ctx context.Context, c *pgconn.Conn, v *view, lo, hi int, skip map[int]error) error {
	r := &copyReader{v: v, at: lo, end: hi, skip: skip, extra: stageExtra, before: func(dst []byte, i int, f frame) []byte {
		dst = append(dst, w.prefix...)
		dst = be.AppendUint32(be.AppendUint32(dst, 4), uint32(w.base+i))
		op := byte('U')
		if f.deletes() {
			op = 'D'
		}
		dst = append(be.AppendUint32(dst, 1), op)
		at := len(dst)
		dst = f.source(append(dst, 0, 0, 0, 0), v.topics)
		be.PutUint32(dst[at:], uint32(len(dst)-at-4))
		return dst
	}}
	n, err := c.CopyIn(ctx, w.copy, r)
	return counted(n, r.sent, err)
}

// Stage stages an epoch in a transaction of its own: {fence, staged row, rows} COMMIT. It
// may be called again when it is not known whether that worked: the primary key of staged
// makes the second call wait for the first and then find its work done.
func (b Book) Stage(ctx context.Context, c *pgconn.Conn, g *Target, attempt stream.Attempt, subtask int, id stream.CheckpointID, rows *Rows, skip Bad, lockTimeout time.Duration) error {
	fault.Point("postgres.stage.before")
	if err := c.Begin(ctx, lockTimeout); err != nil {
		return b.explain(err, "stage rows")
	}
	defer c.Rollback(ctx)
	if err := b.Fence(ctx, c, attempt, true); err != nil {
		return err
	}
	count := int64(rows.Len() - skip.Len())
	n, err := c.Exec(ctx, "INSERT INTO "+b.table("staged")+" (job, sink, lineage, subtask, checkpoint, rows) VALUES ($1, $2, $3::uuid, $4, $5, $6) ON CONFLICT DO NOTHING",
		b.key(int64(subtask), int64(id), count)...)
	if err != nil {
		return b.explain(err, "stage rows")
	}
	if n == 0 {
		return b.stagedBefore(ctx, c, subtask, id, count)
	}
	w := b.stageWriter(g, subtask, id)
	err = rows.each(func(i int, v *view) error {
		defer func() { w.base += len(v.rows) }()
		return w.write(ctx, c, v, 0, len(v.rows), skip[i])
	})
	if err != nil {
		return b.explain(err, "stage rows")
	}
	fault.Point("postgres.stage.copied")
	if err := c.CommitAt(ctx, "postgres.stage.sent"); err != nil {
		return b.explain(err, "stage rows")
	}
	fault.Point("postgres.stage.after")
	return nil
}

// stagedBefore checks what an earlier call has staged.
func (b Book) stagedBefore(ctx context.Context, c *pgconn.Conn, subtask int, id stream.CheckpointID, want int64) error {
	got, ok, err := b.Set(ctx, c, subtask, id)
	if err == nil && (!ok || got != want) {
		err = stream.Errorf(stream.Restart, "postgres.staged_differently", "stage rows", id.String(), "%d rows are staged, and %d were to be", got, want)
	}
	return err
}

// SiftStage finds the rows that the staging table refuses: it has the types of the
// target, and none of its constraints.
func (b Book) SiftStage(ctx context.Context, c *pgconn.Conn, g *Target, subtask int, id stream.CheckpointID, rows *Rows, known Bad, lockTimeout time.Duration, fence Check) (Bad, error) {
	return sift(ctx, c, rows, b.stageWriter(g, subtask, id), known, lockTimeout, fence)
}

// DropStaged deletes what the attempts staged under this lineage, less keep. It returns
// how many epochs went.
func (b Book) DropStaged(ctx context.Context, c *pgconn.Conn, owners []stream.Attempt, keep func(subtask int, id stream.CheckpointID) bool, lockTimeout time.Duration) (int, error) {
	sets, err := b.Sets(ctx, c)
	if err != nil {
		return 0, err
	}
	dropped := 0
	for _, s := range sets {
		owner := false
		for _, a := range owners {
			owner = owner || a == s.Checkpoint.Attempt()
		}
		if s.Lineage != b.Lineage.String() || !owner || keep(s.Subtask, s.Checkpoint) {
			continue
		}
		if err := b.DropSet(ctx, c, s, lockTimeout); err != nil {
			return dropped, err
		}
		dropped++
	}
	return dropped, nil
}

// DropSet deletes one staged epoch of any lineage.
func (b Book) DropSet(ctx context.Context, c *pgconn.Conn, s StagedSet, lockTimeout time.Duration) error {
	if err := c.Begin(ctx, lockTimeout); err != nil {
		return b.explain(err, "drop staged rows")
	}
	defer c.Rollback(ctx)
	if err := b.Lineage.UnmarshalText([]byte(s.Lineage)); err != nil {
		return b.explain(err, "drop staged rows")
	}
	if _, err := b.deleteSet(ctx, c, b.table(b.StageTable()), s.Subtask, s.Checkpoint); err != nil {
		return err
	}
	if _, _, err := b.takeSet(ctx, c, s.Subtask, s.Checkpoint); err != nil {
		return err
	}
	return b.explain(c.Commit(ctx), "drop staged rows")
}

// takeSet deletes the row of a staged epoch and returns how many rows it speaks of.
func (b Book) takeSet(ctx context.Context, c *pgconn.Conn, subtask int, id stream.CheckpointID) (rows int64, ok bool, err error) {
	err = c.Query(ctx, "DELETE FROM "+b.table("staged")+" WHERE"+ours+"AND subtask = $4 AND checkpoint = $5 RETURNING rows", b.key(int64(subtask), int64(id)),
		func(r pgx.Rows) error { ok = true; return r.Scan(&rows) })
	return rows, ok, b.explain(err, "take staged rows")
}

// set is the condition on the rows of one staged epoch, $1 lineage, $2 checkpoint, $3
// subtask.
const set = " etl_lineage = $1::uuid AND etl_checkpoint = $2 AND etl_subtask = $3 "

func (b Book) deleteSet(ctx context.Context, c *pgconn.Conn, table string, subtask int, id stream.CheckpointID) (int64, error) {
	n, err := c.Exec(ctx, "DELETE FROM "+table+" WHERE"+set, b.Lineage.String(), int64(id), int32(subtask))
	return n, b.explain(err, "remove staged rows")
}

// age words how old something is.
func age(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second)).Round(time.Millisecond)
}

// Describe words a set for people.
func (s StagedSet) Describe() string {
	return fmt.Sprintf("lineage %s, %d rows staged %v ago", s.Lineage, s.Rows, age(s.Seconds))
}

// ID names a set in lists: table, lineage, subtask and checkpoint.
func (s StagedSet) ID(b Book) string {
	return fmt.Sprintf("%s.%s:%s:%d:%s", b.Schema, b.StageTable(), s.Lineage[:min(8, len(s.Lineage))], s.Subtask, s.Checkpoint)
}
