package postgres

import (
	"context"
	"hash/crc32"

	"etl/internal/pgconn"
	"etl/sink/sqltxn"
	"etl/state"
	"etl/stream"
)

// rejected is a row that the server refused in a Finish. It goes out at the next barrier;
// until a checkpoint after that is published, checkpoints keep it, so that it goes out once.
type rejected struct {
	sqltxn.Rejected
	// found is the epoch it was in, emitted the barrier at which it went out.
	found, emitted stream.CheckpointID
}

// found remembers rows that were refused.
func (w *Writer) found(id stream.CheckpointID, rs []sqltxn.Rejected) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range rs {
		w.rejects = append(w.rejects, rejected{Rejected: r, found: id})
	}
}

// emit returns the rows that go out at barrier id.
func (w *Writer) emit(id stream.CheckpointID) (out []sqltxn.Rejected) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.rejects {
		if r := &w.rejects[i]; r.emitted == stream.NoCheckpoint {
			r.emitted = id
			out = append(out, r.Rejected)
		}
	}
	return out
}

// keep returns what checkpoint id must remember: rows found bad up to it that have not
// gone out before its barrier, or at it.
func (w *Writer) keep(ctx context.Context, id stream.CheckpointID, up state.Uploader) ([]state.Handle, error) {
	w.mu.Lock()
	var rs []sqltxn.Rejected
	for _, r := range w.rejects {
		if r.found <= id && (r.emitted == stream.NoCheckpoint || r.emitted > id) {
			rs = append(rs, r.Rejected)
		}
	}
	w.mu.Unlock()
	if len(rs) == 0 {
		return nil, nil
	}
	b, err := sqltxn.EncodeRejects(rs)
	if err != nil {
		return nil, err
	}
	if up == nil {
		return []state.Handle{inline(b)}, nil
	}
	h, err := up.Append(state.Writer, b).Wait(ctx)
	h.Role = state.Writer
	return []state.Handle{h}, err
}

func inline(b []byte) state.Handle {
	return state.Handle{Role: state.Writer, Scope: state.Inline, Bytes: b, Size: int64(len(b)), CRC: crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))}
}

// forget drops rows that went out at a barrier whose checkpoint is published. w.mu is held.
func (w *Writer) forget(id stream.CheckpointID) {
	rest := w.rejects[:0]
	for _, r := range w.rejects {
		if r.emitted == stream.NoCheckpoint || r.emitted > id {
			rest = append(rest, r)
		}
	}
	clear(w.rejects[len(rest):])
	w.rejects = rest
}

// enter sets up the fence, and learns of a successor.
func (w *Writer) enter(ctx context.Context) error {
	return w.patiently(ctx, func(c *pgconn.Conn, _ int) error { return w.id.book.Enter(ctx, c, w.env.Attempt) })
}

// purgeEvery is after how many retired checkpoints old markers are deleted.
const purgeEvery = 64

// purge deletes markers that nobody will ask about, now and then, in the background.
func (w *Writer) purge(id stream.CheckpointID) {
	if w.plan == nil || w.plan.Strategy == direct {
		return
	}
	w.mu.Lock()
	w.retired++
	due := w.retired >= purgeEvery && !w.purging && w.ctx.Err() == nil
	if due {
		w.retired, w.purging = 0, true
		w.wg.Add(1)
	}
	w.mu.Unlock()
	if !due {
		return
	}
	go func() {
		defer w.wg.Done()
		err := w.pools.write.With(w.ctx, func(c *pgconn.Conn) error {
			_, err := w.id.book.Purge(w.ctx, c, w.env.Subtask, id)
			return err
		})
		if err != nil && w.ctx.Err() == nil {
			w.env.Log.Info("old markers were not deleted", "error", err)
		}
		w.mu.Lock()
		w.purging = false
		w.mu.Unlock()
	}()
}
