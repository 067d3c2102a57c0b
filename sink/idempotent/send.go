package idempotent

import (
	"context"
	"fmt"
	"time"

	"etl/internal/fault"
	"etl/stream"
)

// Points are all fault points of idempotent sinks, with what each stands for.
var Points = map[string]string{
	"idempotent.write.before":         "rows on their way, nothing of them written",
	"idempotent.postgres.written":     "a batch is written and not committed",
	"idempotent.postgres.commit.sent": "COMMIT is on the wire; its answer is lost",
	"idempotent.write.after":          "a batch is written, its checkpoint is not complete",
	"idempotent.flushed":              "all rows of a checkpoint are written, it is not acknowledged",
}

// send writes batches in order until the writer is closed or has failed.
func (w *Writer) send() {
	for {
		b, ok := w.next()
		if !ok {
			return
		}
		fault.Point("idempotent.write.before")
		var rs []Rejected
		err := w.patiently(w.ctx, func() (err error) { rs, err = b.rows.Write(w.ctx); return err })
		b.rows.Free()
		if err == nil && len(rs) > 0 && w.cfg.OnError == Fail {
			r := &rs[0]
			err = stream.Errorf(stream.Failed, r.Code, "write row", fmt.Sprintf("%s/%d@%d", r.Record.Topic, r.Record.Partition, r.Record.Offset), "the target refuses it: %s", r.Message).
				WithFix("mend the target or the pipeline and start again, or set on_error: skip or dead_letter")
		}
		if err == nil {
			fault.Point("idempotent.write.after")
		}
		w.mu.Lock()
		w.found(b.number, rs)
		w.waiting -= b.size
		if err != nil {
			w.failure = err
		} else {
			w.written = b.number
		}
		w.move()
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// next waits for a batch; ok is false when there will be none.
func (w *Writer) next() (b batch, ok bool) {
	err := w.await(w.ctx, func() bool { return len(w.queue) > 0 })
	if err != nil || w.ctx.Err() != nil {
		return b, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b = w.queue[0]
	w.queue[0] = batch{}
	w.queue = w.queue[1:]
	return b, true
}

// patiently repeats f while what it returns may get better. When that takes too long the
// attempt ends: the rows are in the source, and a restart is exact.
func (w *Writer) patiently(ctx context.Context, f func() error) error {
	begin := w.env.Clock.Now()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := f()
		if err == nil || ctx.Err() != nil || stream.ClassOf(err) != stream.Retry {
			return err
		}
		if w.env.Clock.Now().Sub(begin) > w.cfg.Patience {
			return stream.Errorf(stream.Restart, stream.CodeOf(err), "write rows", w.env.Task().String(), "%w", err)
		}
		w.env.Log.Info("trying again", "error", err)
		if err := w.env.Clock.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}
