package kafka

import (
	"context"
	"errors"
	"fmt"

	"etl/checkpoint"
	"etl/internal/broken"
	"etl/internal/fault"
	"etl/sink"
	"etl/sink/kafkatxn"
	"etl/state"
	"etl/stream"
)

// pending is a sealed epoch on its way to being prepared (B6). The zero value is an
// epoch without rows: it has no transaction, and so no committable.
type pending struct {
	w  *Writer
	e  *epoch
	id stream.CheckpointID
}

// Finish sends what is held, flushes, counts the promises, adds the marker and returns
// the committable. An error ends the attempt.
func (p *pending) Finish(ctx context.Context, _ state.Uploader) (sink.Prepared, error) {
	if p.e == nil {
		return sink.Prepared{}, nil
	}
	if err := p.flush(ctx); err != nil {
		return sink.Prepared{}, p.explain("flush", err)
	}
	if !p.w.cfg.transactional() {
		p.w.refresh(ctx)
		return sink.Prepared{}, nil
	}
	c, err := p.prepare(ctx)
	if err != nil {
		return sink.Prepared{}, p.explain("prepare", err)
	}
	p.w.factory.retire(p.e.p)
	return sink.Prepared{Committables: []checkpoint.Committable{c}}, nil
}

func (p *pending) explain(what string, err error) error {
	return fmt.Errorf("%s checkpoint %s of %s: %w", what, p.id, p.w.env.Task(), err)
}

// flush returns when every row of the epoch is acknowledged: held rows go out first,
// and those only when all rows of the epoch before are (I15).
func (p *pending) flush(ctx context.Context) error {
	e := p.e
	if len(e.held) > 0 {
		if err := e.prev.awaitSettled(ctx); err != nil {
			return err
		}
		if err := e.produce(ctx, e.held); err != nil {
			return err
		}
		e.held = nil
	}
	e.prev = nil // or all epochs would be reachable for ever
	fault.Point("kafka.flush.before")
	if broken.Is(broken.CapturedBeforeFlush) {
		return nil
	}
	if err := e.flush(ctx); err != nil {
		return err
	}
	fault.Point("kafka.flush.after")
	return nil
}

func (p *pending) prepare(ctx context.Context) (c checkpoint.Committable, err error) {
	e, w := p.e, p.w
	t := e.p.txn
	if err := w.raw.Mark(ctx, t, w.env.Subtask, p.id, fmt.Sprintf("%d/%d", w.env.Attempt, e.p.slot.n)); err != nil {
		return c, err
	}
	payload := w.raw.Payload(t, w.env.Subtask, e.p.slot.n, e.start, e.wrote())
	b, err := payload.Encode()
	if err != nil {
		return c, errors.Join(errors.New("the transaction cannot be described"), err)
	}
	fault.Point("kafka.prepared")
	return checkpoint.Committable{
		Sink: w.env.UID, Subtask: w.env.Subtask, Checkpoint: p.id, Attempt: w.env.Attempt,
		Kind: kafkatxn.Kind, Version: kafkatxn.Version, Payload: b, Rows: e.rows, Deadline: payload.Deadline(),
	}, nil
}
