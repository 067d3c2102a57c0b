package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"etl/checkpoint"
	"etl/internal/fault"
	"etl/internal/pgconn"
	"etl/sink"
	"etl/stream"
)

const (
	// fencePatience bounds a fence; after it the restart strategy decides.
	fencePatience = 60 * time.Second
	// fenceLock is how long one try to take over waits for those who have read the fence.
	fenceLock = 500 * time.Millisecond
)

// Fence ends what the owners left, less keep (V6): it rolls their prepared transactions
// back, takes over, and drops what they staged. Any number of processes may run it, any
// number of times.
//
// While a transaction of keep is prepared, the fence cannot be taken over: it has read it.
// Nothing of the owners can become visible all the same, because they publish nothing any
// more; the fence that follows the commit of keep takes it over.
func (c *Committer) Fence(ctx context.Context, owners []stream.Attempt, keep []checkpoint.Committable) error {
	if len(owners) == 0 {
		return nil
	}
	if err := c.fence(ctx, owners, keep); err != nil {
		return fmt.Errorf("fence earlier attempts of %s: %w", c.env.UID, err)
	}
	return nil
}

func (c *Committer) fence(ctx context.Context, owners []stream.Attempt, keep []checkpoint.Committable) error {
	fault.Point("postgres.fence.before")
	gids, sets := kept(keep)
	whole, cancel := context.WithTimeout(ctx, fencePatience)
	defer cancel()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := c.with(whole, func(conn *pgconn.Conn) error { return c.fenceOnce(whole, conn, owners, gids) })
		if err == nil {
			break
		}
		if stream.ClassOf(err) != stream.Retry || c.env.Clock.Sleep(whole, wait) != nil {
			return err
		}
		if stream.CodeOf(err) == pgconn.CodeLocked {
			c.end(whole, owners)
		}
	}
	return c.with(ctx, func(conn *pgconn.Conn) error {
		n, err := c.id.book.DropStaged(ctx, conn, owners, func(sub int, id stream.CheckpointID) bool { return sets[place{sub, id}] }, c.cfg.LockTimeout)
		if n > 0 {
			c.env.Log.Info("dropped rows that earlier attempts staged for checkpoints that were not published", "sink", c.env.UID, "epochs", n)
		}
		fault.Point("postgres.fence.after")
		return err
	})
}

// place is an epoch of a subtask.
type place struct {
	subtask int
	id      stream.CheckpointID
}

func kept(keep []checkpoint.Committable) (gids map[string]bool, sets map[place]bool) {
	gids, sets = map[string]bool{}, map[place]bool{}
	for i := range keep {
		if p, err := decode(&keep[i]); err == nil && p.prepared != nil {
			gids[p.prepared.GID] = true
		}
		sets[place{keep[i].Subtask, keep[i].Checkpoint}] = true
	}
	return gids, sets
}

// fenceOnce rolls back and takes over. A transaction that is prepared in between keeps the
// fence from being taken over, and the next try finds it.
func (c *Committer) fenceOnce(ctx context.Context, conn *pgconn.Conn, owners []stream.Attempt, keep map[string]bool) error {
	left, err := c.rollBack(ctx, conn, owners, keep)
	if err != nil {
		return err
	}
	fault.Point("postgres.fence.rolled")
	if left > 0 {
		return nil
	}
	if err := conn.Begin(ctx, fenceLock); err != nil {
		return pgconn.Explain(err, "take over", "")
	}
	if err := c.id.book.TakeOver(ctx, conn, c.env.Attempt); err != nil {
		return err
	}
	if err := conn.Commit(ctx); err != nil {
		return pgconn.Explain(err, "take over", "")
	}
	fault.Point("postgres.fence.takenover")
	return nil
}

// rollBack rolls back what the owners have prepared under this job, sink and lineage, and
// returns how many of those to keep are there.
func (c *Committer) rollBack(ctx context.Context, conn *pgconn.Conn, owners []stream.Attempt, keep map[string]bool) (left int, err error) {
	all, err := conn.ListPrepared(ctx, "etl:"+c.env.Lineage.Short()+":")
	if err != nil {
		return 0, err
	}
	for _, t := range all {
		id, ok := c.id.book.Ours(t.GID)
		switch {
		case !ok || !slices.Contains(owners, id.Checkpoint.Attempt()):
			continue
		case keep[t.GID]:
			left++
			continue
		}
		err := conn.RollbackPrepared(ctx, t.GID)
		if err != nil && stream.CodeOf(err) != pgconn.CodeNoSuchPrepared { // somebody else was faster
			return left, err
		}
		c.env.Log.Info("rolled back what an earlier attempt had prepared", "gid", t.GID, "age", t.Age.String())
	}
	return left, nil
}

// end ends the sessions of the owners that hold the fence: those of a process that was
// stopped would hold it for ever.
func (c *Committer) end(ctx context.Context, owners []stream.Attempt) {
	for _, a := range owners {
		if a >= c.env.Attempt {
			continue
		}
		name := pgconn.Application(c.env.Lineage, a, c.env.Job, c.env.UID)
		err := c.with(ctx, func(conn *pgconn.Conn) error {
			n, err := conn.Terminate(ctx, name)
			if n > 0 {
				c.env.Log.Warn("ended sessions of an earlier attempt, which held its fence", "sessions", n, "attempt", a)
			}
			return err
		})
		if err != nil {
			c.env.Log.Info("sessions of an earlier attempt could not be ended", "attempt", a, "error", err)
		}
	}
}

// Inspect lists what is prepared or staged under this job and sink, of any lineage,
// read-only.
func (c *Committer) Inspect(ctx context.Context) (out []sink.InDoubt, err error) {
	err = c.with(ctx, func(conn *pgconn.Conn) error {
		all, err := conn.ListPrepared(ctx, "etl:")
		if err != nil {
			return err
		}
		for _, t := range all {
			if id, ok := c.id.book.ParseGID(t.GID); ok {
				out = append(out, sink.InDoubt{ID: t.GID, Attempt: id.Checkpoint.Attempt(), Subtask: id.Subtask, Checkpoint: id.Checkpoint,
					State: "prepared", Age: t.Age, Detail: fmt.Sprintf("lineage %s, owner %s", id.Lineage8, t.Owner)})
			}
		}
		sets, err := c.id.book.Sets(ctx, conn)
		for _, s := range sets {
			out = append(out, sink.InDoubt{ID: s.ID(c.id.book), Attempt: s.Checkpoint.Attempt(), Subtask: s.Subtask, Checkpoint: s.Checkpoint,
				State: "staged", Age: time.Duration(s.Seconds * float64(time.Second)), Detail: s.Describe()})
		}
		return err
	})
	slices.SortFunc(out, func(a, b sink.InDoubt) int {
		return cmp.Or(cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Subtask, b.Subtask), cmp.Compare(a.ID, b.ID))
	})
	return out, err
}
