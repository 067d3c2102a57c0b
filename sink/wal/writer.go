package wal

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"etl/checkpoint"
	"etl/internal/fault"
	"etl/sink"
	"etl/state"
	"etl/stream"
)

// Writer is phase one of one subtask: it writes nothing but the log.
type Writer struct {
	sink *Sink
	env  stream.Env
	life *life

	// The task goroutine's.
	front   Front
	cur     Epoch // the open epoch, nil before its first row
	records int64 // of the open epoch
	bytes   int64

	mu          sync.Mutex
	uncommitted map[stream.CheckpointID]int64 // records by epoch
}

var _ sink.Writer = (*Writer)(nil)

// Open opens the target's front. A writer has no state of its own.
func (w *Writer) Open(ctx context.Context, env stream.Env, _ []state.Handle) error {
	w.env = env
	if w.env.Counters == nil {
		w.env.Counters = new(stream.Counters)
	}
	w.uncommitted = map[stream.CheckpointID]int64{}
	w.life = w.sink.join(env.Attempt)
	w.front = w.sink.target.NewFront()
	if err := w.front.Open(ctx, env); err != nil {
		return fmt.Errorf("open sink %s: %w", env.Task(), err)
	}
	return nil
}

// Write encodes the rows of b and keeps them (R7). It waits while the log is full, which
// is the job's back-pressure. It takes over the reference to b, whose bytes are not needed
// afterwards.
func (w *Writer) Write(ctx context.Context, b *stream.Batch, out sink.Output) (err error) {
	defer b.Release()
	if err := w.life.wait(ctx, w.bytes); err != nil {
		return err
	}
	if w.cur == nil {
		if w.cur, err = w.front.Begin(); err != nil {
			return err
		}
	}
	rows, bytes := int64(0), int64(0)
	for i := range b.Records {
		size, err := w.cur.Add(&b.Records[i], b)
		if stream.ClassOf(err) == stream.Environment {
			return err // no room to spill: not the record's fault
		}
		if err != nil {
			out.Reject(b.Records[i], err)
			continue
		}
		rows++
		bytes += int64(size)
	}
	w.records += rows
	w.bytes += bytes
	w.env.Counters.RecordsOut.Add(rows)
	w.env.Counters.BytesOut.Add(bytes)
	w.env.Counters.Uncommitted.Add(rows)
	return nil
}

// PrepareCommit seals the open epoch (B4). It waits for nothing.
func (w *Writer) PrepareCommit(_ context.Context, id stream.CheckpointID, _ sink.Output) (sink.Pending, error) {
	p := &pending{w: w, id: id, rows: w.cur}
	if w.records > 0 {
		w.mu.Lock()
		w.uncommitted[id] = w.records
		w.mu.Unlock()
	}
	w.cur, w.records, w.bytes = nil, 0, 0
	return p, nil
}

// Published notes that epochs up to id will be delivered.
func (w *Writer) Published(id stream.CheckpointID) { w.life.published(w.env.Subtask, id) }

// Resolved notes that epochs up to id are delivered.
func (w *Writer) Resolved(id stream.CheckpointID, retired bool) {
	w.mu.Lock()
	for e, n := range w.uncommitted {
		if e <= id {
			w.env.Counters.Uncommitted.Add(-n)
			delete(w.uncommitted, e)
		}
	}
	w.mu.Unlock()
	w.life.delivered(w.env.Subtask, id)
	if retired {
		w.life.retired(w.env.Subtask, id)
	}
}

// Aborted has nothing to do: the segments of an aborted checkpoint stay, and the next
// checkpoint lists them (I7).
func (w *Writer) Aborted(context.Context, stream.CheckpointID) error { return nil }

// Close frees resources.
func (w *Writer) Close() error {
	if w.cur != nil {
		w.cur.Free()
		w.cur = nil
	}
	if w.life != nil {
		w.sink.leave(w.env.Attempt)
		w.life = nil
	}
	if w.front == nil {
		return nil
	}
	return w.front.Close()
}

// pending is a sealed epoch on its way into the log (B6).
type pending struct {
	w    *Writer
	id   stream.CheckpointID
	rows Epoch // nil for none
}

// uploads is how many segments are on their way at once.
const uploads = 4

// Finish uploads the segments. After it a crash loses nothing. What fails to be stored
// ends the attempt: the rows are in the source (I8).
func (p *pending) Finish(ctx context.Context, up state.Uploader) (out sink.Prepared, err error) {
	if p.rows == nil {
		return out, nil
	}
	defer p.rows.Free()
	n := p.rows.Rows()
	if n == 0 {
		return out, nil
	}
	fault.Point("wal.upload.before")
	c, err := p.upload(ctx, up, n)
	if err != nil {
		return out, fmt.Errorf("store the segments of checkpoint %s of %s: %w", p.id, p.w.env.Task(), err)
	}
	fault.Point("wal.uploaded")
	out.Committables = []checkpoint.Committable{c}
	return out, nil
}

func (p *pending) upload(ctx context.Context, up state.Uploader, rows int64) (c checkpoint.Committable, err error) {
	w := p.w
	c = checkpoint.Committable{Sink: w.env.UID, Subtask: w.env.Subtask, Checkpoint: p.id, Attempt: w.env.Attempt,
		Kind: w.sink.target.Kind(), Version: Version, Rows: rows}
	pl := payload{PreparedMillis: w.env.Clock.Now().UnixMilli()}
	if pl.Plan, err = p.rows.Plan(); err != nil {
		return c, err
	}
	u := &uploading{ctx: ctx, up: up}
	s := Segment{Kind: c.Kind, Checkpoint: p.id, Subtask: w.env.Subtask}
	err = p.rows.Segments(func(n int, body []byte) error {
		s.Rows, s.Body = n, body
		b, err := s.Append(room(segmentHead + len(s.Kind) + len(body) + segmentTail))
		if err != nil {
			return err
		}
		s.Number++
		pl.Bytes += int64(len(b))
		return u.add(b)
	})
	if err = u.end(err); err != nil {
		return c, err
	}
	c.Objects = u.handles
	w.life.sealed(w.env.Subtask, p.id, pl.Bytes, false)
	c.Payload, err = json.Marshal(pl)
	return c, err
}

// uploading is the segments of an epoch on their way.
type uploading struct {
	ctx     context.Context
	up      state.Uploader
	tickets []state.Ticket
	frames  [][]byte // of the tickets
	handles []state.Handle
}

// spareFrames are *[]byte whose tickets are done. Segments are large, and every epoch of
// every subtask needs some: the collector takes those that nobody used for a while.
var spareFrames sync.Pool

// room returns empty memory for a segment.
func room(size int) []byte {
	if b, ok := spareFrames.Get().(*[]byte); ok && cap(*b) >= size {
		return (*b)[:0]
	}
	return make([]byte, 0, size)
}

func (u *uploading) add(frame []byte) error {
	u.tickets, u.frames = append(u.tickets, u.up.Append(state.Rows, frame)), append(u.frames, frame)
	if len(u.tickets) < uploads {
		return nil
	}
	return u.first()
}

// first waits for the oldest ticket.
func (u *uploading) first() error {
	h, err := u.tickets[0].Wait(u.ctx)
	if b := u.frames[0]; err == nil { // nobody reads it any more
		spareFrames.Put(&b)
	}
	u.tickets, u.frames = u.tickets[1:], u.frames[1:]
	h.Role = state.Rows
	u.handles = append(u.handles, h)
	return err
}

// end waits for the others.
func (u *uploading) end(err error) error {
	for err == nil && len(u.tickets) > 0 {
		err = u.first()
	}
	return err
}
