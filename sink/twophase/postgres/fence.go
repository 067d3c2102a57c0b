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
	"etl/sink/sqltxn"
	"etl/stream"
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

// successor is this attempt as one that takes the sink over.
func (c *Committer) successor() sqltxn.Successor {
	return sqltxn.Successor{Book: c.id.book, Pool: c.pools.commit, World: c.env.World, Attempt: c.env.Attempt, Owners: c.env.Owners}
}

func (c *Committer) fence(ctx context.Context, owners []stream.Attempt, keep []checkpoint.Committable) error {
	fault.Point("postgres.fence.before")
	gids, sets := kept(keep)
	heir := c.successor()
	heir.Owners = owners
	held, err := heir.Usurp(ctx, gids)
	if err != nil {
		return err
	}
	if !held {
		fault.Point("postgres.fence.takenover")
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
