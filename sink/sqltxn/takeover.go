package sqltxn

import (
	"context"
	"time"

	"etl/internal/pgconn"
	"etl/stream"
)

const (
	// fencePatience bounds a takeover; after it the restart strategy decides.
	fencePatience = 60 * time.Second
	// fenceLock is how long one try waits for those who have read the fence.
	fenceLock = 500 * time.Millisecond
)

// Usurp takes the sink over from the owners: it waits for transactions that have read the
// fence, and ends sessions of lower owners that would hold it for ever, those of a process
// that was stopped. before is called at the beginning of every try, on its connection; nil
// for nothing. With hold it says that the fence cannot be taken over yet, and need not be.
func (b Book) Usurp(ctx context.Context, p *pgconn.Pool, w stream.World, attempt stream.Attempt, owners []stream.Attempt, before func(context.Context, *pgconn.Conn) (hold bool, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, fencePatience)
	defer cancel()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := p.With(ctx, func(c *pgconn.Conn) error {
			if before != nil {
				if hold, err := before(ctx, c); hold || err != nil {
					return err
				}
			}
			return b.takeOverOnce(ctx, c, attempt)
		})
		if err == nil || stream.ClassOf(err) != stream.Retry || w.Clock.Sleep(ctx, wait) != nil {
			return err
		}
		if stream.CodeOf(err) == pgconn.CodeLocked {
			b.endSessions(ctx, p, w, attempt, owners)
		}
	}
}

func (b Book) takeOverOnce(ctx context.Context, c *pgconn.Conn, attempt stream.Attempt) error {
	if err := c.Begin(ctx, fenceLock); err != nil {
		return pgconn.Explain(err, "take over", "")
	}
	if err := b.TakeOver(ctx, c, attempt); err != nil {
		return err
	}
	return pgconn.Explain(c.Commit(ctx), "take over", "")
}

// endSessions ends what sessions of lower owners are doing. Without the right to, the
// wait goes on: the holder may end by itself.
func (b Book) endSessions(ctx context.Context, p *pgconn.Pool, w stream.World, attempt stream.Attempt, owners []stream.Attempt) {
	for _, a := range owners {
		if a >= attempt {
			continue
		}
		err := p.With(ctx, func(c *pgconn.Conn) error {
			n, err := c.Terminate(ctx, pgconn.Application(b.Lineage, a, b.Job, b.Sink))
			if n > 0 {
				w.Log.Warn("ended sessions of an earlier attempt, which held its fence", "sessions", n, "attempt", a)
			}
			return err
		})
		if err != nil {
			w.Log.Info("sessions of an earlier attempt could not be ended", "attempt", a, "error", err)
		}
	}
}
