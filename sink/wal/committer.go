package wal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"etl/checkpoint"
	"etl/internal/fault"
	"etl/sink"
	"etl/stream"
)

// Committer is phase two of a sink: it reads the log and delivers.
type Committer struct {
	sink *Sink
	env  sink.CommitEnv
	back Back
	life *life

	mu     sync.Mutex
	newest map[int]stream.CheckpointID // delivered here, by subtask
}

var _ sink.Committer = (*Committer)(nil)

// Open opens the target's back.
func (c *Committer) Open(ctx context.Context, env sink.CommitEnv) error {
	c.env, c.newest = env, map[int]stream.CheckpointID{}
	c.life = c.sink.join(env.Attempt)
	c.back = c.sink.target.NewBack()
	if err := c.back.Open(ctx, env); err != nil {
		return fmt.Errorf("open committer of %s: %w", env.UID, err)
	}
	c.life.opened(c.back)
	return nil
}

func (c *Committer) decode(cm *checkpoint.Committable) (*Entry, error) {
	return decode(cm, c.sink.target.Kind(), c.env.Objects)
}

// Probe looks at committables without changing anything (V4).
func (c *Committer) Probe(ctx context.Context, cs []checkpoint.Committable, published time.Time) (out []sink.Probed, err error) {
	for i := range cs {
		e, err := c.decode(&cs[i])
		if err != nil {
			return nil, err
		}
		p, err := c.back.Probe(ctx, e, published)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	fault.Point("wal.recover.probed")
	return out, nil
}

// Marker returns the newest delivered checkpoint of a lane.
func (c *Committer) Marker(ctx context.Context, subtask int) (stream.CheckpointID, error) {
	return c.back.Marker(ctx, subtask)
}

// Commit delivers what the permit covers (B10, V5).
func (c *Committer) Commit(ctx context.Context, permit checkpoint.Permit, cm checkpoint.Committable) (sink.Result, error) {
	if !permit.Covers(&cm) {
		return sink.Result{}, fmt.Errorf("I5: checkpoint %s of %s is not covered by the permit of %s", cm.Checkpoint, cm.Lane(), permit.ID())
	}
	e, err := c.decode(&cm)
	if err != nil {
		return sink.Result{}, err
	}
	if err := c.inOrder(ctx, e); err != nil {
		return sink.Result{}, err
	}
	fault.Point("wal.deliver.before")
	r, err := c.back.Deliver(ctx, e)
	if err != nil && ctx.Err() == nil && passing(err) {
		return sink.Result{Outcome: sink.Transient, Detail: err.Error()}, nil
	}
	if err != nil || r.Outcome != sink.Done && r.Outcome != sink.Already {
		return r, err
	}
	// From here to the publication of a checkpoint that carries the resolution only the
	// outside knows of the delivery.
	fault.Point("wal.delivered")
	if r.Rejects > 0 {
		c.env.Log.Warn("rows that the outside refused were put aside", "sink", cm.Lane().String(), "checkpoint", cm.Checkpoint.String(), "rows", r.Rejects, "where", r.Detail)
	}
	c.mu.Lock()
	c.life.delivered(cm.Subtask, cm.Checkpoint)
	c.newest[cm.Subtask] = max(c.newest[cm.Subtask], cm.Checkpoint)
	c.mu.Unlock()
	return r, nil
}

// passing reports whether the same delivery may succeed later. A storage that does not
// answer is waited for: what it holds cannot be had from anywhere else.
func passing(err error) bool {
	return stream.ClassOf(err) == stream.Retry || stream.CodeOf(err) == "storage.failed" || errors.Is(err, context.DeadlineExceeded)
}

// inOrder refuses to deliver what is behind a later delivery of its lane and was not made:
// its rows would overwrite newer ones. Lanes see to the order; this is for whoever calls
// without one, and costs nothing in order.
func (c *Committer) inOrder(ctx context.Context, e *Entry) error {
	c.mu.Lock()
	newest := c.newest[e.Subtask]
	c.mu.Unlock()
	if e.Checkpoint >= newest {
		return nil
	}
	p, err := c.back.Probe(ctx, e, e.Prepared)
	if err == nil && p.Status == sink.Open && !c.sink.Features().Repeats {
		err = fmt.Errorf("I5: checkpoint %s of %s is open behind %s, which is delivered", e.Checkpoint, e.Lane(), newest)
	}
	return err
}

// Fence makes sure that nothing the owners still do becomes visible (V6). What is kept
// stays in the log, and counts against its bound.
func (c *Committer) Fence(ctx context.Context, owners []stream.Attempt, keep []checkpoint.Committable) error {
	if len(owners) == 0 {
		return nil
	}
	var entries []*Entry
	for i := range keep {
		e, err := c.decode(&keep[i])
		if err != nil {
			return err
		}
		entries = append(entries, e)
		c.mu.Lock()
		if e.Checkpoint > c.newest[e.Subtask] { // its lane may be at work already
			c.life.sealed(e.Subtask, e.Checkpoint, e.Bytes, true)
		}
		c.mu.Unlock()
	}
	fault.Point("wal.fence.before")
	if err := c.back.Fence(ctx, owners, entries); err != nil {
		return fmt.Errorf("fence earlier attempts of %s: %w", c.env.UID, err)
	}
	fault.Point("wal.fence.after")
	return nil
}

// Inspect lists what is in doubt outside, read-only. What waits in the log is no doubt:
// the metadata lists it.
func (c *Committer) Inspect(ctx context.Context) ([]sink.InDoubt, error) { return c.back.Inspect(ctx) }

// Close closes the connections.
func (c *Committer) Close() error {
	if c.life != nil {
		c.life.opened(nil)
		c.sink.leave(c.env.Attempt)
		c.life = nil
	}
	if c.back == nil {
		return nil
	}
	return c.back.Close()
}
