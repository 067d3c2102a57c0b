package postgres

import (
	"context"
	"time"

	"etl/internal/fault"
	"etl/internal/pgconn"
	"etl/sink/sqltxn"
	"etl/stream"
)

// epoch is the rows between two barriers, from the second one on. Its fields are guarded by
// the writer's mutex, but rows and records are its Finish's until that has returned.
type epoch struct {
	id      stream.CheckpointID
	rows    *sqltxn.Rows // until nobody needs them: published, or prepared for good
	bad     sqltxn.Bad   // rows that the server refuses, and that are rejected
	records int64
	// prepared: there is something on the server that a committable names.
	prepared bool
	// aborted: it can never be published, and is to be rolled back; gone: it is.
	aborted, gone bool
	published     bool
	// begun: its Finish needs nothing of the task any more; ended is closed when it has
	// returned.
	begun bool
	ended chan struct{}
}

// room waits while the open epoch is full and the one before is still on its way to the
// server: a table that is slower than the source slows the source down, or each epoch would
// be longer than the last. It waits for no Finish that waits for the task itself, which has
// to take barriers and hear of aborts: one that has not begun, or waits for an epoch that
// is not published.
func (w *Writer) room(ctx context.Context) error {
	if w.cur == nil || w.cur.Bytes() < w.cfg.Memory {
		return nil
	}
	var last *epoch
	w.mu.Lock()
	for _, e := range w.epochs {
		if e.begun {
			last = e
		}
	}
	w.mu.Unlock()
	if last == nil {
		return nil
	}
	select {
	case <-last.ended:
		return nil
	default:
	}
	w.env.Log.Info("the table is slower than the source, which waits", "component", w.env.UID, "checkpoint", last.id.String())
	select {
	case <-last.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (e *epoch) free() {
	if e.rows != nil {
		e.rows.Free()
		e.rows = nil
	}
}

// abortPatience bounds how long a task waits for a rollback; longer ones are left to the
// next Finish, in the background.
const abortPatience = 2 * time.Second

// before returns the epochs before e that are aborted, once none of the others is prepared
// and not resolved: a subtask has one prepared transaction, whose locks would keep those of
// the next one waiting for ever.
func (w *Writer) before(ctx context.Context, e *epoch) (aborted []*epoch, err error) {
	for {
		w.mu.Lock()
		wait, begun := false, true
		aborted = nil
		for _, f := range w.epochs {
			if f.id >= e.id {
				break
			}
			switch {
			case f.aborted:
				aborted = append(aborted, f)
			case f.prepared:
				wait, begun = true, begun && f.published
			}
		}
		wait = wait && w.oneInFlight()
		e.begun = begun || !wait
		moved := w.moved
		w.mu.Unlock()
		if !wait {
			return aborted, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// oneInFlight reports whether epochs are prepared one after the other.
func (w *Writer) oneInFlight() bool { return w.plan.Strategy == Prepared && !w.plan.Overlap }

// absorb puts the rows of aborted epochs before those of e, and returns their ids: e
// replaces them.
func (w *Writer) absorb(ctx context.Context, e *epoch, aborted []*epoch) (replaces []stream.CheckpointID, err error) {
	for _, f := range aborted {
		if err := w.rollback(ctx, f); err != nil {
			return nil, err
		}
		replaces = append(replaces, f.id)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(aborted) - 1; i >= 0; i-- {
		f := aborted[i]
		if f.rows == nil { // it had none to write, and a later checkpoint was published meanwhile
			continue
		}
		e.bad = f.bad.Before(f.rows, e.bad)
		e.rows, f.rows = f.rows.Join(e.rows), nil
		e.records += f.records
	}
	rest := w.epochs[:0]
	for _, f := range w.epochs {
		if !f.aborted || f.id >= e.id {
			rest = append(rest, f)
		}
	}
	clear(w.epochs[len(rest):])
	w.epochs = rest
	return replaces, nil
}

// rollback rolls back what an aborted epoch has prepared. A transaction that is gone was
// rolled back by somebody; one that is committed is a breach of the protocol.
func (w *Writer) rollback(ctx context.Context, e *epoch) error {
	w.rolling.Lock()
	defer w.rolling.Unlock()
	if e.gone || !e.prepared {
		return nil
	}
	fault.Point("postgres.abort.before")
	gid := w.id.book.GID(w.env.Subtask, e.id)
	err := w.patiently(ctx, func(c *pgconn.Conn, _ int) error {
		err := c.RollbackPrepared(ctx, gid)
		if stream.CodeOf(err) != pgconn.CodeNoSuchPrepared {
			return err
		}
		marked, err := w.id.book.Marked(ctx, c, w.env.Subtask, e.id)
		if marked {
			return stream.Errorf(stream.DataLoss, "postgres.aborted_committed", "roll back", gid,
				"it was committed, although its checkpoint %s was aborted: somebody committed it by hand", e.id)
		}
		return err
	})
	if err == nil {
		fault.Point("postgres.abort.after")
		e.gone = true
	}
	return err
}

// patiently repeats f, each time with a connection, while what it returns may get better,
// for as long as a checkpoint may take. try counts from 0.
func (w *Writer) patiently(ctx context.Context, f func(c *pgconn.Conn, try int) error) error {
	begin := w.env.Clock.Now()
	for try, wait := 0, 10*time.Millisecond; ; try, wait = try+1, min(2*wait, time.Second) {
		err := w.pools.write.With(ctx, func(c *pgconn.Conn) error { return f(c, try) })
		if err == nil || ctx.Err() != nil || stream.ClassOf(err) != stream.Retry || w.env.Clock.Now().Sub(begin) > w.cfg.Policy.Timeout {
			return err
		}
		w.env.Log.Info("trying again", "error", err)
		if err := w.env.Clock.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}
