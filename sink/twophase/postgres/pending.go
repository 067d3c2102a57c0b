package postgres

import (
	"context"
	"fmt"

	"etl/checkpoint"
	"etl/expr"
	"etl/internal/fault"
	"etl/internal/pgconn"
	"etl/sink"
	"etl/sink/sqltxn"
	"etl/state"
	"etl/stream"
)

// pending is a sealed epoch on its way to being prepared (B6).
type pending struct {
	w *Writer
	e *epoch
}

// Finish writes the epoch to the server, so that a crash loses nothing any more. It keeps
// trying while the server is away; rows that the server refuses are found, kept in the
// checkpoint, and rejected at the next barrier, unless they end the job. An error ends the
// attempt.
func (p *pending) Finish(ctx context.Context, up state.Uploader) (sink.Prepared, error) {
	defer close(p.e.ended)
	out, err := p.finish(ctx, up)
	if err != nil && ctx.Err() == nil && stream.ClassOf(err) == stream.Retry {
		// The rows are in the source: a restart is exact.
		err = stream.Errorf(stream.Restart, stream.CodeOf(err), "prepare", p.e.id.String(), "%w", err)
	}
	if err != nil {
		err = fmt.Errorf("prepare checkpoint %s of %s: %w", p.e.id, p.w.env.Task(), err)
	}
	return out, err
}

func (p *pending) finish(ctx context.Context, up state.Uploader) (out sink.Prepared, err error) {
	w, e := p.w, p.e
	aborted, err := w.before(ctx, e)
	if err != nil {
		return out, err
	}
	if out.Replaces, err = w.absorb(ctx, e, aborted); err != nil {
		return out, err
	}
	known := e.bad
	if e.bad, err = p.write(ctx, known); err != nil {
		return out, err
	}
	rs, err := e.bad.Rejects(e.rows, known)
	if err != nil {
		return out, err
	}
	if len(rs) > 0 && w.cfg.OnError == Fail {
		// Nothing is published yet: whoever mends the table starts again where it was.
		return out, stream.Errorf(stream.Failed, rs[0].Code, "write row", expr.Where(&rs[0].Record), "the table %s refuses it: %s", w.cfg.Table, rs[0].Message).
			WithFix("mend the table or the pipeline and start again, or set on_error: skip or dead_letter")
	}
	w.found(e.id, rs)
	if n := e.rows.Len() - e.bad.Len(); n > 0 && w.plan.Strategy != direct {
		c, err := p.committable(int64(n))
		if err != nil {
			return out, err
		}
		out.Committables = []checkpoint.Committable{c}
	}
	w.done(e, len(out.Committables) > 0)
	out.State, err = w.keep(ctx, e.id, up)
	out.More = len(out.State) > 0
	return out, err
}

// done notes that the epoch is on the server. Only where it could be rolled back are its
// rows needed any more.
func (w *Writer) done(e *epoch, prepared bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.prepared = prepared
	if !w.oneInFlight() {
		e.free()
	}
}

// write writes the rows, without those found bad, and returns these.
func (p *pending) write(ctx context.Context, bad sqltxn.Bad) (_ sqltxn.Bad, err error) {
	w, rows := p.w, p.e.rows
	// Sifting can be fooled by what others commit meanwhile: it is repeated, not for ever.
	for range 4 {
		if rows.Len() == bad.Len() {
			return bad, nil
		}
		err = w.patiently(ctx, func(c *pgconn.Conn, try int) error { return p.attempt(ctx, c, try, bad) })
		if pgconn.Row(err) == nil {
			return bad, err
		}
		rows.Restore()
		w.env.Log.Info("a row of the epoch is bad: looking for it", "checkpoint", p.e.id.String(), "error", pgconn.Explain(err, "", ""))
		serr := w.patiently(ctx, func(c *pgconn.Conn, _ int) (err error) { bad, err = p.sift(ctx, c, bad); return err })
		if serr != nil {
			return nil, serr
		}
		if w.cfg.OnError == Fail && bad.Len() > 0 {
			return bad, nil // the job ends over it: nothing is to be left behind
		}
	}
	return nil, err
}

func (p *pending) sift(ctx context.Context, c *pgconn.Conn, known sqltxn.Bad) (sqltxn.Bad, error) {
	w := p.w
	var fence sqltxn.Check // direct has none
	if w.plan.Strategy != direct {
		fence = w.id.book.Fencing(w.env.Attempt, true)
	}
	if w.plan.Strategy == Staged {
		return w.id.book.SiftStage(ctx, c, w.plan.target, w.env.Subtask, p.e.id, p.e.rows, known, w.cfg.LockTimeout, fence)
	}
	return w.plan.target.Sift(ctx, c, p.e.rows, known, w.cfg.LockTimeout, fence)
}

// attempt writes the epoch once.
func (p *pending) attempt(ctx context.Context, c *pgconn.Conn, try int, bad sqltxn.Bad) error {
	w := p.w
	switch w.plan.Strategy {
	case Staged:
		return w.id.book.Stage(ctx, c, w.plan.target, w.env.Attempt, w.env.Subtask, p.e.id, p.e.rows, bad, w.cfg.LockTimeout)
	case direct:
		return p.commit(ctx, c, bad)
	}
	return p.prepare(ctx, c, try, bad)
}

// prepare writes the epoch into a transaction and prepares it. Whether an earlier try was
// carried out, when its answer was lost, the list of prepared transactions tells; one that
// is still on its way holds the marker's key, and this one waits for it there.
func (p *pending) prepare(ctx context.Context, c *pgconn.Conn, try int, bad sqltxn.Bad) error {
	w, e := p.w, p.e
	gid := w.id.book.GID(w.env.Subtask, e.id)
	if try > 0 {
		found, err := listed(ctx, c, gid)
		if found || err != nil {
			return err
		}
	}
	if err := c.Begin(ctx, w.cfg.LockTimeout); err != nil {
		return pgconn.Explain(err, "begin", gid)
	}
	if err := w.id.book.Fence(ctx, c, w.env.Attempt, true); err != nil {
		return err
	}
	fresh, err := w.id.book.Mark(ctx, c, w.env.Subtask, e.id, int64(e.rows.Len()-bad.Len()))
	if err != nil {
		return err
	}
	if !fresh {
		return stream.Errorf(stream.Restart, "postgres.marker_there", "prepare", gid, "the marker of this checkpoint is there already: somebody committed it")
	}
	fault.Point("postgres.marked")
	if err := p.insert(ctx, c, bad); err != nil {
		return pgconn.Explain(err, "write rows", w.cfg.Table)
	}
	fault.Point("postgres.prepare.before")
	if err := c.PrepareTransaction(ctx, gid, "postgres.prepare.sent"); err != nil {
		return w.exhausted(ctx, err)
	}
	fault.Point("postgres.prepared")
	return nil
}

// commit writes the epoch and commits it at once, for the modes that are not exactly once.
func (p *pending) commit(ctx context.Context, c *pgconn.Conn, bad sqltxn.Bad) error {
	w := p.w
	if err := c.BeginBrief(ctx, w.cfg.LockTimeout, pgconn.IdlePatience); err != nil {
		return pgconn.Explain(err, "begin", "")
	}
	if err := w.plan.target.Write(ctx, c, p.e.rows, bad); err != nil {
		return pgconn.Explain(err, "write rows", w.cfg.Table)
	}
	return pgconn.Explain(c.Commit(ctx), "commit rows", w.cfg.Table)
}

// committable describes what is prepared, or staged.
func (p *pending) committable(rows int64) (c checkpoint.Committable, err error) {
	w := p.w
	if w.plan.Strategy == Staged {
		c, err = committable(KindStaged, w.id.book.MergeOf(w.plan.target, p.e.rows.Reduced() && w.cfg.OnError == Fail))
	} else {
		c, err = committable(KindPrepared, preparedPayload{GID: w.id.book.GID(w.env.Subtask, p.e.id), Book: w.id.book.Schema})
	}
	c.Sink, c.Subtask, c.Checkpoint, c.Attempt, c.Rows = w.env.UID, w.env.Subtask, p.e.id, w.env.Attempt, rows
	return c, err
}

// exhausted adds who holds the prepared transactions, when there are no more.
func (w *Writer) exhausted(ctx context.Context, err error) error {
	if stream.CodeOf(err) != pgconn.CodeSlotsExhausted {
		return err
	}
	var all []pgconn.Prepared
	lerr := w.pools.write.With(ctx, func(c *pgconn.Conn) (err error) { all, err = c.ListPrepared(ctx, ""); return err })
	if lerr != nil {
		return err
	}
	var own []string
	for _, t := range all {
		if _, ok := w.id.book.ParseGID(t.GID); ok {
			own = append(own, t.GID)
		}
	}
	return stream.Errorf(stream.Retry, pgconn.CodeSlotsExhausted, string(pgconn.Prepare), w.env.Task().String(),
		"all %d prepared transactions of the server are taken: of this database %d by this sink %v, %d by others", w.plan.server.MaxPrepared, len(own), own, len(all)-len(own)).
		WithFix("set max_prepared_transactions to %d more and restart the server, finish what others have left (pg_prepared_xacts), or use strategy: staged", w.plan.Needed)
}

// listed reports whether a transaction is prepared.
func listed(ctx context.Context, c *pgconn.Conn, gid string) (bool, error) {
	all, err := c.ListPrepared(ctx, gid)
	for _, t := range all {
		if t.GID == gid {
			return true, err
		}
	}
	return false, err
}
