package postgres

import (
	"context"
	"fmt"
	"time"

	"etl/checkpoint"
	"etl/internal/broken"
	"etl/internal/fault"
	"etl/internal/pgconn"
	"etl/sink"
	"etl/sink/sqltxn"
	"etl/stream"
)

// Committer is phase two of a sink. It finishes what either strategy has left: a pipeline
// file may have changed the strategy since.
type Committer struct {
	sink  *Sink
	cfg   Config
	env   sink.CommitEnv
	id    identity
	pools *pools
	seen  sqltxn.Seen
}

var _ sink.Committer = (*Committer)(nil)

// Open connects and looks whether the books are there.
func (c *Committer) Open(ctx context.Context, env sink.CommitEnv) (err error) {
	c.env = env
	c.id = identity{World: env.World, book: c.cfg.book(env.Job, env.UID, env.Lineage), attempt: env.Attempt}
	if err := c.open(ctx); err != nil {
		return fmt.Errorf("open committer of %s: %w", env.UID, err)
	}
	return nil
}

func (c *Committer) open(ctx context.Context) (err error) {
	if c.pools, err = c.sink.open(ctx, c.id); err != nil {
		return err
	}
	server, err := c.pools.commit.Inspect(ctx, c.env.Clock)
	if err != nil {
		return err
	}
	if server.StatementPooling {
		_, err := Choose(c.cfg, server, nil)
		return err
	}
	return c.with(ctx, func(conn *pgconn.Conn) error {
		if _, err := c.id.book.Newest(ctx, conn, 0); err != nil {
			return err
		}
		if _, err := c.id.book.Sets(ctx, conn); err != nil || !broken.Is(broken.StagedRowsDropped) {
			return err
		}
		_, err := c.id.book.DropStaged(ctx, conn, c.env.Owners, func(int, stream.CheckpointID) bool { return false }, c.cfg.LockTimeout)
		return err
	})
}

// with calls f with a connection that no writer can hold up.
func (c *Committer) with(ctx context.Context, f func(*pgconn.Conn) error) error {
	return c.pools.commit.With(ctx, f)
}

// bookOf returns the books that a committable was prepared with.
func (c *Committer) bookOf(p payload) sqltxn.Book {
	b := c.id.book
	if p.prepared != nil {
		b.Schema = p.prepared.Book
	} else {
		b.Schema = p.merge.Book
	}
	return b
}

// Probe looks at committables without changing anything (V4). A missing marker is proof:
// markers are deleted only once a later checkpoint no longer lists their epoch.
func (c *Committer) Probe(ctx context.Context, cs []checkpoint.Committable, _ time.Time) (out []sink.Probed, err error) {
	err = c.with(ctx, func(conn *pgconn.Conn) error {
		for i := range cs {
			p, err := c.probe(ctx, conn, &cs[i])
			if err != nil {
				return err
			}
			out = append(out, p)
		}
		return nil
	})
	fault.Point("postgres.recover.probed")
	return out, err
}

// probe reads the list of what is prepared, or staged, before it reads the marker, each in
// a statement of its own: who commits makes the marker visible before the other one goes.
func (c *Committer) probe(ctx context.Context, conn *pgconn.Conn, cm *checkpoint.Committable) (r sink.Probed, err error) {
	p, err := decode(cm)
	if err != nil {
		return r, err
	}
	book := c.bookOf(p)
	there, detail, err := false, "", error(nil)
	if p.prepared != nil {
		detail = "prepared transaction " + p.prepared.GID
		there, err = listed(ctx, conn, p.prepared.GID)
	} else {
		var rows int64
		rows, there, err = book.Set(ctx, conn, cm.Subtask, cm.Checkpoint)
		detail = fmt.Sprintf("%d of %d staged rows", rows, cm.Rows)
		there = there && rows == cm.Rows
	}
	if err != nil {
		return r, err
	}
	if r.Marker, err = book.Newest(ctx, conn, cm.Subtask); err != nil {
		return r, err
	}
	marked, err := book.Marked(ctx, conn, cm.Subtask, cm.Checkpoint)
	r.Detail = fmt.Sprintf("%s: there %v, marker %v, newest marker %s", detail, there, marked, r.Marker)
	switch {
	case err != nil:
		return r, err
	case marked:
		r.Status = sink.Committed
	case there:
		r.Status = sink.Open
	default:
		r.Status = sink.Gone
	}
	return r, nil
}

// Marker returns the newest committed checkpoint of a lane. A job that has published
// nothing refuses the markers of an earlier life of the same name (I12).
func (c *Committer) Marker(ctx context.Context, subtask int) (id stream.CheckpointID, err error) {
	err = c.with(ctx, func(conn *pgconn.Conn) error {
		if c.env.Fresh && !c.cfg.AcceptForeign {
			if err := c.id.book.Foreign(ctx, conn); err != nil {
				return err
			}
		}
		id, err = c.id.book.Newest(ctx, conn, subtask)
		return err
	})
	return id, err
}

// patience bounds one try of a commit, more for each row that is merged; the ledger makes the
// next.
func patience(cm *checkpoint.Committable) time.Duration {
	return 30*time.Second + time.Duration(cm.Rows)*500*time.Microsecond
}

// Commit commits what the permit covers (B10, V5): COMMIT PREPARED, or the merge. An answer
// that proves nothing is resolved by the marker. A lower owner that was stopped in the middle
// of the same commit holds the marker: its session is ended, and the next try has it.
func (c *Committer) Commit(ctx context.Context, permit checkpoint.Permit, cm checkpoint.Committable) (sink.Result, error) {
	if !permit.Covers(&cm) {
		return sink.Result{}, fmt.Errorf("I5: checkpoint %s of %s is not covered by the permit of %s", cm.Checkpoint, cm.Lane(), permit.ID())
	}
	p, err := decode(&cm)
	if err != nil {
		return sink.Result{}, err
	}
	whole, cancel := context.WithTimeout(ctx, patience(&cm))
	defer cancel()
	var r sink.Result
	err = c.with(whole, func(conn *pgconn.Conn) (err error) {
		if err := c.inOrder(whole, conn, c.bookOf(p), &cm); err != nil {
			return err
		}
		if p.prepared != nil {
			r, err = c.commitPrepared(whole, conn, c.bookOf(p), p.prepared.GID, &cm)
		} else {
			r, err = c.merge(whole, conn, c.bookOf(p), p.merge, &cm)
		}
		return err
	})
	if err != nil && ctx.Err() == nil && (stream.ClassOf(err) == stream.Retry || whole.Err() != nil) {
		c.successor().Evict(ctx, err)
		return sink.Result{Outcome: sink.Transient, Detail: err.Error()}, nil
	}
	if err == nil && (r.Outcome == sink.Done || r.Outcome == sink.Already) {
		c.seen.Committed(c.bookOf(p), cm.Subtask, cm.Checkpoint)
	}
	return r, err
}

// inOrder refuses to commit before what is committed already: a lane goes in id order (I5),
// and its marker never goes back, unless the server does. What is committed itself is in order.
func (c *Committer) inOrder(ctx context.Context, conn *pgconn.Conn, book sqltxn.Book, cm *checkpoint.Committable) error {
	newest, err := c.seen.Newest(ctx, conn, book, cm.Subtask)
	if err != nil || newest <= cm.Checkpoint {
		return err
	}
	if marked, err := book.Marked(ctx, conn, cm.Subtask, cm.Checkpoint); err != nil || marked {
		return err
	}
	subject := fmt.Sprintf("checkpoint %s of %s", cm.Checkpoint, cm.Lane())
	if newest.Attempt() > c.env.Attempt {
		return stream.Errorf(stream.Fenced, "postgres.fenced", "commit", subject, "attempt %d has committed %s since", newest.Attempt(), newest)
	}
	return stream.Errorf(stream.Failed, "postgres.out_of_order", "commit", subject, "I5: the later checkpoint %s of this lane is committed already", newest)
}

func (c *Committer) commitPrepared(ctx context.Context, conn *pgconn.Conn, book sqltxn.Book, gid string, cm *checkpoint.Committable) (sink.Result, error) {
	if broken.Is(broken.GidOfNewAttempt) {
		gid = book.GID(cm.Subtask, stream.NewCheckpointID(c.env.Attempt, cm.Checkpoint.N()))
	}
	fault.Point("postgres.commit.before")
	err := conn.CommitPrepared(ctx, gid, "postgres.commit.sent")
	if err == nil {
		fault.Point("postgres.commit.after")
		return sink.Result{Outcome: sink.Done}, nil
	}
	if stream.CodeOf(err) != pgconn.CodeNoSuchPrepared {
		return sink.Result{}, err
	}
	// Committed before, or rolled back, by anybody (I10).
	marked, merr := book.Marked(ctx, conn, cm.Subtask, cm.Checkpoint)
	switch {
	case broken.Is(broken.MissingIsCommitted):
		return sink.Result{Outcome: sink.Already}, nil
	case merr != nil:
		return sink.Result{}, merr
	case marked:
		fault.Point("postgres.recover.marker")
		return sink.Result{Outcome: sink.Already, ByMarker: true, Detail: err.Error()}, nil
	}
	return sink.Result{Outcome: sink.Lost, Detail: fmt.Sprintf("the server has no prepared transaction %s and no marker of it: it was rolled back by hand, or lost in a failover to a standby that had not received it, or in a restore from a backup", gid)}, nil
}

func (c *Committer) merge(ctx context.Context, conn *pgconn.Conn, book sqltxn.Book, m *sqltxn.Merge, cm *checkpoint.Committable) (sink.Result, error) {
	// A lock is waited for less long than the try may take, so that it is known what was waited for.
	got, rejects, err := book.Apply(ctx, conn, sqltxn.Application{Merge: m, Subtask: cm.Subtask, ID: cm.Checkpoint, Rows: cm.Rows, Attempt: c.env.Attempt,
		LockTimeout: min(c.cfg.LockTimeout, patience(cm)/2), Sort: c.cfg.OnError != Fail})
	if pgconn.Row(err) != nil && stream.CodeOf(err) != "postgres.too_many_bad_rows" {
		return sink.Result{}, stream.Errorf(stream.Failed, "postgres.row_after_publish", "merge staged rows", fmt.Sprintf("checkpoint %s of %s", cm.Checkpoint, cm.Lane()),
			"the table refuses a row: %w; the rows stay staged", pgconn.Explain(err, "", "")).
			WithFix("mend the table and start the job again, or set on_error: skip or dead_letter, which puts such rows into %s", book.Schema+".reject")
	}
	if err != nil {
		return sink.Result{}, err
	}
	switch got {
	case sqltxn.Applied:
		if rejects > 0 {
			c.env.Log.Warn("rows that the table refused went to the reject table", "sink", cm.Lane().String(), "checkpoint", cm.Checkpoint.String(), "rows", rejects, "table", book.Schema+".reject")
		}
		return sink.Result{Outcome: sink.Done, Rejects: int64(rejects)}, nil
	case sqltxn.Before:
		fault.Point("postgres.recover.marker")
		return sink.Result{Outcome: sink.Already, ByMarker: true}, nil
	}
	return sink.Result{Outcome: sink.Lost, Detail: fmt.Sprintf("the %d rows that were staged are not there, or not all of them, and their marker is not there either: somebody deleted them, or the database was restored from a backup", cm.Rows)}, nil
}

// Close closes the connections.
func (c *Committer) Close() error {
	if c.pools != nil {
		c.sink.release(c.id, c.pools)
		c.pools = nil
	}
	return nil
}
