package sqltxn

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"etl/internal/fault"
	"etl/internal/pgconn"
	"etl/stream"
)

// DefaultSchema is where the tables of this package are unless a connection says
// otherwise.
const DefaultSchema = "etl"

// Book is the tables in which the sinks of a database keep their books, as one sink of
// one lineage uses them.
type Book struct {
	Schema string
	Names
}

func (b Book) table(name string) string { return pgconn.Ident(b.Schema, name) }

// key are the parameters that every statement begins with: $1 job, $2 sink, $3 lineage.
func (b Book) key(more ...any) []any {
	return append([]any{b.Job, string(b.Sink), b.Lineage.String()}, more...)
}

// ours is the condition on key.
const ours = " job = $1 AND sink = $2 AND lineage = $3::uuid "

// explain adds what is missing when the tables are not there.
func (b Book) explain(err error, op pgconn.Op) error {
	err = pgconn.Explain(err, op, "sink "+string(b.Sink))
	var e *stream.Error
	if errors.As(err, &e) && e.Code == pgconn.CodeMissing {
		e = e.WithFix("create the tables of schema %s: etl sink init prints and applies the statements", b.Schema)
		e.Code = "postgres.not_initialised"
		return e
	}
	return err
}

// Fence checks, in the open transaction, that no later attempt has taken the sink over,
// and keeps it so until the transaction ends: taking over waits for it. exact demands
// that this attempt has taken over; a recovery finishes what was staged before it does.
func (b Book) Fence(ctx context.Context, c *pgconn.Conn, attempt stream.Attempt, exact bool) error {
	var epoch int64
	err := c.QueryRow(ctx, "SELECT epoch FROM "+b.table("fence")+" WHERE"+ours+"FOR SHARE", b.key(), &epoch)
	switch {
	case errors.Is(err, pgconn.ErrNoRow) && !exact:
		return nil // nobody has ever written
	case errors.Is(err, pgconn.ErrNoRow):
		return stream.Errorf(stream.Restart, "postgres.no_fence", "check fence", "sink "+string(b.Sink), "its row in %s is gone", b.table("fence"))
	case err != nil:
		return b.explain(err, "check fence")
	case fenceUnchecked():
		return nil
	case epoch > int64(attempt), exact && epoch < int64(attempt):
		return stream.Errorf(stream.Fenced, "postgres.fenced", "check fence", "sink "+string(b.Sink), "attempt %d has taken it over from attempt %d", epoch, attempt)
	}
	return nil
}

// Fencing returns Fence as a Check.
func (b Book) Fencing(attempt stream.Attempt, exact bool) Check {
	return func(ctx context.Context, c *pgconn.Conn) error { return b.Fence(ctx, c, attempt, exact) }
}

// TakeOver makes attempt the only one that may write. It waits, up to the lock timeout of
// its transaction, for all transactions that have read the fence, those that are prepared
// included. Who has taken over before waits for nobody: its own transactions have read the
// fence, too, and even an update that changes nothing would wait for them.
func (b Book) TakeOver(ctx context.Context, c *pgconn.Conn, attempt stream.Attempt) error {
	fault.Point("postgres.fence.takeover")
	var taken bool
	err := c.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+b.table("fence")+" WHERE"+ours+"AND epoch >= $4)", b.key(int64(attempt)), &taken)
	if err != nil || taken {
		return b.explain(err, "take over")
	}
	_, err = c.Exec(ctx, "INSERT INTO "+b.table("fence")+" AS f (job, sink, lineage, epoch) VALUES ($1, $2, $3::uuid, $4) "+
		"ON CONFLICT (job, sink, lineage) DO UPDATE SET epoch = EXCLUDED.epoch, taken_at = clock_timestamp() WHERE f.epoch < EXCLUDED.epoch", b.key(int64(attempt))...)
	return b.explain(err, "take over")
}

// Enter makes sure that there is a fence. An attempt that comes late changes nothing.
func (b Book) Enter(ctx context.Context, c *pgconn.Conn, attempt stream.Attempt) error {
	_, err := c.Exec(ctx, "INSERT INTO "+b.table("fence")+" (job, sink, lineage, epoch) VALUES ($1, $2, $3::uuid, $4) ON CONFLICT DO NOTHING", b.key(int64(attempt))...)
	if err != nil {
		return b.explain(err, "set up fence")
	}
	return b.Fence(ctx, c, attempt, true)
}

// Mark inserts the marker of an epoch in the open transaction, and reports whether it was
// not there before. It waits for whoever is about to insert the same one.
func (b Book) Mark(ctx context.Context, c *pgconn.Conn, subtask int, id stream.CheckpointID, rows int64) (bool, error) {
	if markerOmitted() {
		return true, nil
	}
	n, err := c.Exec(ctx, "INSERT INTO "+b.table("marker")+" (job, sink, lineage, subtask, checkpoint, attempt, rows) VALUES ($1, $2, $3::uuid, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
		b.key(int64(subtask), int64(id), int64(id.Attempt()), rows)...)
	return n == 1, b.explain(err, "insert marker")
}

// Marked reports whether the marker of an epoch is there: its rows are, then.
func (b Book) Marked(ctx context.Context, c *pgconn.Conn, subtask int, id stream.CheckpointID) (found bool, err error) {
	err = c.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+b.table("marker")+" WHERE"+ours+"AND subtask = $4 AND checkpoint = $5)", b.key(int64(subtask), int64(id)), &found)
	return found && !markerNotRead(), b.explain(err, "read marker")
}

// Newest returns the newest marker of a subtask, NoCheckpoint for none.
func (b Book) Newest(ctx context.Context, c *pgconn.Conn, subtask int) (stream.CheckpointID, error) {
	var id int64
	err := c.QueryRow(ctx, "SELECT coalesce(max(checkpoint), 0) FROM "+b.table("marker")+" WHERE"+ours+"AND subtask = $4", b.key(int64(subtask)), &id)
	if markerNotRead() {
		id = 0
	}
	return stream.CheckpointID(id), b.explain(err, "read marker")
}

// Foreign returns an error (RestoreRefused) when another lineage of the same job and sink
// has committed: its rows are there already (I12).
func (b Book) Foreign(ctx context.Context, c *pgconn.Conn) error {
	var lineage string
	var id int64
	err := c.QueryRow(ctx, "SELECT lineage::text, checkpoint FROM "+b.table("marker")+" WHERE job = $1 AND sink = $2 AND lineage <> $3::uuid ORDER BY written_at DESC LIMIT 1", b.key(), &lineage, &id)
	if errors.Is(err, pgconn.ErrNoRow) {
		return nil
	}
	if err != nil {
		return b.explain(err, "read markers")
	}
	return stream.Errorf(stream.RestoreRefused, "postgres.foreign_lineage", "start", "sink "+string(b.Sink),
		"an earlier life of job %s (lineage %s) committed checkpoint %s; this start has no stored checkpoint and would write those rows again", b.Job, lineage, stream.CheckpointID(id)).
		WithFix("restore the job's data directory, rename the job, or accept the duplicates with --accept-foreign-lineage")
}

// Purge deletes markers of a subtask that nobody will ask about: those before a checkpoint
// that is retired, but never the newest one. It has its own transaction, so that no epoch
// waits for it.
func (b Book) Purge(ctx context.Context, c *pgconn.Conn, subtask int, before stream.CheckpointID) (int64, error) {
	n, err := c.Exec(ctx, "DELETE FROM "+b.table("marker")+" WHERE"+ours+"AND subtask = $4 AND checkpoint < $5 AND checkpoint < (SELECT max(checkpoint) FROM "+b.table("marker")+" WHERE"+ours+"AND subtask = $4)",
		b.key(int64(subtask), int64(before))...)
	return n, b.explain(err, "purge markers")
}

// StagedSet is one staged epoch.
type StagedSet struct {
	Lineage    string
	Subtask    int
	Checkpoint stream.CheckpointID
	Rows       int64
	Seconds    float64 // its age
}

// Sets lists what is staged for this job and sink, of any lineage.
func (b Book) Sets(ctx context.Context, c *pgconn.Conn) (out []StagedSet, err error) {
	err = c.Query(ctx, "SELECT lineage::text, subtask, checkpoint, rows, extract(epoch FROM clock_timestamp() - staged_at)::float8 FROM "+b.table("staged")+" WHERE job = $1 AND sink = $2 ORDER BY checkpoint, subtask",
		[]any{b.Job, string(b.Sink)}, func(r pgx.Rows) error {
			var s StagedSet
			var id, subtask int64
			err := r.Scan(&s.Lineage, &subtask, &id, &s.Rows, &s.Seconds)
			s.Subtask, s.Checkpoint = int(subtask), stream.CheckpointID(id)
			out = append(out, s)
			return err
		})
	return out, b.explain(err, "list staged rows")
}

// Set returns the number of rows that are staged for an epoch; ok is false when there is
// no such set.
func (b Book) Set(ctx context.Context, c *pgconn.Conn, subtask int, id stream.CheckpointID) (rows int64, ok bool, err error) {
	err = c.QueryRow(ctx, "SELECT rows FROM "+b.table("staged")+" WHERE"+ours+"AND subtask = $4 AND checkpoint = $5", b.key(int64(subtask), int64(id)), &rows)
	if errors.Is(err, pgconn.ErrNoRow) {
		return 0, false, nil
	}
	return rows, err == nil, b.explain(err, "look at staged rows")
}

// String names the sink in messages.
func (b Book) String() string { return fmt.Sprintf("%s/%s in schema %s", b.Job, b.Sink, b.Schema) }
