package pipeline

import (
	"context"

	"etl/stream"
)

// The size at which a coalesced batch is sent on.
const (
	batchRecords = 512
	batchBytes   = 128 << 10
)

// exchange is the sending side of an edge in one subtask: it copies records into
// one batch per target, so that nothing is shared with the other side, and sends
// them when they are full and before every barrier and watermark (I1).
type exchange struct {
	spec    *edgeSpec
	keyer   Keyer // nil without a key
	targets []*target
	// byGroup is the target of each key group.
	byGroup []int32
	next    int  // the target of the next batch without a key
	whole   bool // records take along what they were read as: dead letters may need it
	pending bool
	clock   stream.Clock
	c       *stream.Counters
	where   *whereabouts
}

// target is one subtask at the other end.
type target struct {
	id    stream.TaskID
	in    *inbox
	input int
	batch *stream.Batch
	bytes int
}

// route is step R3: record -> key -> key group -> subtask.
//
// A record without a key goes to the first target, where the component that asked
// for the key rejects it under its own policy.
func (x *exchange) route(ctx context.Context, b *stream.Batch) error {
	if x.keyer == nil {
		return x.pass(ctx, b)
	}
	if err := x.keyer.Key(b, func(i int, _ error) { b.Records[i].Group = nil }); err != nil {
		return err
	}
	groups := len(x.byGroup)
	for i := range b.Records {
		r := &b.Records[i]
		t := x.targets[0]
		if r.Group != nil {
			t = x.targets[x.byGroup[stream.KeyGroupOf(r.Hash, groups)]]
		}
		if err := x.add(ctx, t, r); err != nil {
			return err
		}
	}
	return nil
}

// pass sends a whole batch to one target: the own subtask on a forward edge, the
// next one in turn otherwise.
func (x *exchange) pass(ctx context.Context, b *stream.Batch) error {
	t := x.targets[x.next%len(x.targets)]
	x.next++
	for i := range b.Records {
		if err := x.add(ctx, t, &b.Records[i]); err != nil {
			return err
		}
	}
	return nil
}

func (x *exchange) add(ctx context.Context, t *target, r *stream.Record) error {
	if t.batch == nil {
		t.batch = stream.NewBatch(x.spec.node.schema(x.spec.input.Tag))
		t.batch.Port = x.spec.port
	}
	if x.whole && r.Orig != nil {
		t.batch.AppendWhole(r)
		t.bytes += len(r.Orig.Key) + len(r.Orig.Value)
	} else {
		t.batch.AppendCopy(r)
	}
	t.bytes += len(r.Key) + len(r.Value)
	x.pending = true
	if len(t.batch.Records) >= batchRecords || t.bytes >= batchBytes {
		return x.sendBatch(ctx, t)
	}
	return nil
}

func (x *exchange) sendBatch(ctx context.Context, t *target) error {
	b := t.batch
	t.batch, t.bytes = nil, 0
	return x.send(ctx, t, b)
}

// send hands el to a target and counts the time it had to wait for a credit.
func (x *exchange) send(ctx context.Context, t *target, el stream.Element) error {
	if t.in.offer(t.input, el) {
		return nil
	}
	begin := x.clock.Now()
	x.where.waits.Store(&t.id)
	err := t.in.send(ctx, t.input, el)
	x.where.waits.Store(nil)
	x.c.BlockedNanos.Add(int64(x.clock.Now().Sub(begin)))
	return err
}

// flush sends what is coalesced.
func (x *exchange) flush(ctx context.Context) error {
	if !x.pending {
		return nil
	}
	x.pending = false
	for _, t := range x.targets {
		if t.batch != nil {
			if err := x.sendBatch(ctx, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// broadcast flushes and sends el to every target.
func (x *exchange) broadcast(ctx context.Context, el stream.Element) error {
	if err := x.flush(ctx); err != nil {
		return err
	}
	for _, t := range x.targets {
		if err := x.send(ctx, t, el); err != nil {
			return err
		}
	}
	return nil
}

// release gives up what was coalesced and will not be sent.
func (x *exchange) release() {
	for _, t := range x.targets {
		if t.batch != nil {
			t.batch.Release()
			t.batch = nil
		}
	}
}
