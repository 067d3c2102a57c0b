package pipeline

import (
	"cmp"
	"fmt"

	"etl/stream"
)

// output collects what one component of a chain emits, until the chain hands it
// on. It implements transform.Output and sink.Output.
type output struct {
	node   *Node
	c      *stream.Counters
	onSkip func(r *stream.Record, err error)

	cur    *stream.Batch
	queue  []*stream.Batch
	spare  []*stream.Batch // the memory of the queue handed on last
	sides  []side
	failed error // the first rejected record under the policy Fail
}

// side is what waits on a side output.
type side struct {
	tag stream.Tag
	b   *stream.Batch
	own bool // b is for Side to append to
}

// Emit appends a record.
func (o *output) Emit(r stream.Record) {
	b := o.Batch()
	b.Records = append(b.Records, r)
}

// Batch returns the batch that Emit appends to.
func (o *output) Batch() *stream.Batch {
	if o.cur != nil && len(o.cur.Records) >= batchRecords {
		o.seal()
	}
	if o.cur == nil {
		o.cur = stream.NewBatch(o.node.Out)
	}
	return o.cur
}

// EmitBatch passes a batch on.
func (o *output) EmitBatch(b *stream.Batch) {
	o.seal()
	b.Port = 0 // who is chained behind has one input
	if len(b.Records) == 0 {
		b.Release()
		return
	}
	o.queue = append(o.queue, b)
}

// seal moves what Emit has appended into the queue.
func (o *output) seal() {
	if o.cur == nil {
		return
	}
	if len(o.cur.Records) == 0 {
		o.cur.Release()
	} else {
		o.queue = append(o.queue, o.cur)
	}
	o.cur = nil
}

// Side emits to a side output. Its bytes are copied.
func (o *output) Side(tag stream.Tag, r stream.Record) { o.sideBatch(tag).AppendWhole(&r) }

// sideBatch returns the batch that Side appends to: the last one of the tag, so that
// order with SideBatch is kept.
func (o *output) sideBatch(tag stream.Tag) *stream.Batch {
	for i := len(o.sides) - 1; i >= 0; i-- {
		if s := &o.sides[i]; s.tag == tag {
			if s.own && len(s.b.Records) < batchRecords {
				return s.b
			}
			break
		}
	}
	b := stream.NewBatch(o.node.schema(tag))
	o.sides = append(o.sides, side{tag, b, true})
	return b
}

// SideBatch passes a batch on to a side output.
func (o *output) SideBatch(tag stream.Tag, b *stream.Batch) {
	b.Port = 0
	if len(b.Records) == 0 {
		b.Release()
		return
	}
	o.sides = append(o.sides, side{tag, b, false})
}

// Reject applies the component's policy to a record it could not process. The
// error says where the record came from, never what it holds.
func (o *output) Reject(r stream.Record, err error) {
	o.c.Rejects.Add(string(cmp.Or(o.node.OnError, Fail)), stream.RejectCode(err))
	switch o.node.OnError {
	case Skip:
		o.onSkip(&r, err)
	case DeadLetter:
		l := stream.NewLetter(&r, o.node.component(), err)
		l.AppendTo(o.sideBatch(DeadLetterTag))
	default:
		if o.failed == nil {
			o.failed = rejected(o.node.UID, &r, err)
		}
	}
}

// rejected is the error of a record that fails the job.
func rejected(uid stream.UID, r *stream.Record, err error) error {
	return stream.Errorf(stream.Failed, stream.RejectCode(err), "process record", string(uid), "%s: %w", where(r), err).
		WithFix("mend the record at its source, or set on_error: dead_letter or skip for %s", uid)
}

// where names a record's origin.
func where(r *stream.Record) string {
	return fmt.Sprintf("topic %s partition %d offset %d", r.Topic, r.Partition, r.Offset)
}

// release gives up what will not be handed on.
func (o *output) release() {
	o.seal()
	for _, b := range o.queue {
		b.Release()
	}
	for _, s := range o.sides {
		s.b.Release()
	}
	o.queue, o.sides = nil, nil
}
