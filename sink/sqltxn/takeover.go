package sqltxn

import (
	"context"
	"slices"
	"time"

	"etl/internal/fault"
	"etl/internal/pgconn"
	"etl/stream"
)

const (
	// fencePatience bounds a takeover; after it the restart strategy decides.
	fencePatience = 60 * time.Second
	// fenceLock is how long one try waits for those who have read the fence.
	fenceLock = 500 * time.Millisecond
)

// Successor is an attempt that takes a sink over from the attempts before it.
//
// A process that was stopped, or whose machine is gone, leaves sessions that hold what
// their transactions have locked: the marker it was about to commit, rows, the fence. The
// server waits for its client, for hours where that one is silent. A successor ends such
// sessions by their application name, in V5 as well as in V6: what they have not committed
// their own attempt can only commit again, and the successor does that as well.
type Successor struct {
	Book
	Pool    *pgconn.Pool
	World   stream.World
	Attempt stream.Attempt
	// Owners are the attempts it takes the sink over from.
	Owners []stream.Attempt
}

// Evict ends the sessions of owners that wait for their clients, when err says that a lock
// was not to be had. Without the right to, the wait goes on: the holder may end by itself.
func (s Successor) Evict(ctx context.Context, err error) {
	if stream.CodeOf(err) != pgconn.CodeLocked {
		return
	}
	var names []string
	for _, a := range s.Owners {
		if a < s.Attempt {
			names = append(names, pgconn.Application(s.Lineage, a, s.Job, s.Sink))
		}
	}
	if len(names) == 0 {
		return
	}
	err = s.Pool.With(ctx, func(c *pgconn.Conn) error {
		n, err := c.Terminate(ctx, names)
		if n > 0 {
			s.World.Log.Warn("ended sessions of earlier attempts, which held locks", "sink", s.Sink, "sessions", n)
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		s.World.Log.Info("sessions of earlier attempts could not be ended", "sink", s.Sink, "error", err)
	}
}

// Usurp takes the sink over (V6): it rolls back what the owners have prepared, less keep,
// by whatever delivery they had, and waits for transactions that have read the fence. A
// transaction that is prepared between looking and taking over keeps the fence from being
// taken over, and the next try finds it. held says that one of keep does: the fence cannot
// be taken over then, and need not be.
func (s Successor) Usurp(ctx context.Context, keep map[string]bool) (held bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, fencePatience)
	defer cancel()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := s.Pool.With(ctx, func(c *pgconn.Conn) (err error) {
			held, err = s.usurpOnce(ctx, c, keep)
			return err
		})
		if err == nil || stream.ClassOf(err) != stream.Retry || s.World.Clock.Sleep(ctx, wait) != nil {
			return held, err
		}
		s.Evict(ctx, err)
	}
}

func (s Successor) usurpOnce(ctx context.Context, c *pgconn.Conn, keep map[string]bool) (held bool, err error) {
	left, err := s.rollBack(ctx, c, keep)
	if err != nil {
		return false, err
	}
	fault.Point("postgres.fence.rolled")
	if left > 0 {
		return true, nil
	}
	if err := c.Begin(ctx, fenceLock); err != nil {
		return false, pgconn.Explain(err, "take over", "")
	}
	if err := s.TakeOver(ctx, c, s.Attempt); err != nil {
		return false, err
	}
	return false, pgconn.Explain(c.Commit(ctx), "take over", "")
}

// rollBack rolls back what the owners have prepared under this job, sink and lineage, and
// returns how many of those to keep are there.
func (s Successor) rollBack(ctx context.Context, c *pgconn.Conn, keep map[string]bool) (left int, err error) {
	all, err := c.ListPrepared(ctx, GIDPrefix+s.Lineage.Short()+":")
	if err != nil {
		return 0, err
	}
	for _, t := range all {
		id, ok := s.Ours(t.GID)
		switch {
		case !ok || !slices.Contains(s.Owners, id.Checkpoint.Attempt()):
			continue
		case keep[t.GID]:
			left++
			continue
		}
		err := c.RollbackPrepared(ctx, t.GID)
		if err != nil && stream.CodeOf(err) != pgconn.CodeNoSuchPrepared { // somebody else was faster
			return left, err
		}
		s.World.Log.Info("rolled back what an earlier attempt had prepared", "gid", t.GID, "age", t.Age.String())
	}
	return left, nil
}
