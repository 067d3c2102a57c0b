package pipeline

import (
	"context"

	"etl/sink"
	"etl/state"
	"etl/stream"
	"etl/transform"
)

// link is one component in the chain of a task: a node of the tree whose root is
// the task's head.
type link struct {
	node     *Node
	env      stream.Env
	op       transform.Operator // operators
	writer   sink.Writer        // sinks
	store    state.Store        // operators with keyed state
	keyers   []Keyer            // of the inputs, by port; nil for one without a key
	inline   bool               // the rekey is inside the task: it has one subtask
	commits  bool               // the writer's rows are committed by a transaction
	opened   bool               // the writer has got rows since the last barrier
	where    *whereabouts       // of the task
	out      *output
	children []child
	c        *stream.Counters
}

// child is where one output of a link goes.
type child struct {
	tag stream.Tag
	to  *link     // chained, or
	ex  *exchange // over an exchange
}

// push is step R5: it hands a batch to the component and what it emits on to its children. It
// takes over one reference to b.
func (l *link) push(ctx context.Context, b *stream.Batch) error {
	l.c.RecordsIn.Add(int64(len(b.Records)))
	defer l.where.leave(l.where.enter(l))
	if l.writer != nil {
		return l.write(ctx, b)
	}
	if k := l.keyerOf(b); k != nil && (l.inline || unkeyed(b)) {
		var err error
		if b, err = l.rekey(b, k); err != nil {
			return err
		}
	}
	l.env.Listener.Did("R5", l.env.Task(), stream.NoCheckpoint)
	err := l.op.Process(ctx, b, l.out)
	b.Release()
	if err != nil {
		return err
	}
	return l.drain(ctx)
}

// write is step R7: the sink takes a batch.
func (l *link) write(ctx context.Context, b *stream.Batch) error {
	l.env.Listener.Did("R7", l.env.Task(), stream.NoCheckpoint)
	n, begin := len(b.Records), l.env.Clock.Now()
	if l.commits && !l.opened {
		l.opened = true
		l.env.Listener.OnTransaction(stream.TransactionEvent{Task: l.env.Task(), State: stream.TransactionOpen, Begun: begin})
	}
	if err := l.writer.Write(ctx, b, l.out); err != nil {
		return err
	}
	l.env.Listener.OnWrite(stream.WriteEvent{Task: l.env.Task(), Records: n, Took: l.env.Clock.Now().Sub(begin)})
	return l.drain(ctx)
}

// keyerOf returns the keyer of the input that b came over, nil when it has none.
func (l *link) keyerOf(b *stream.Batch) Keyer {
	if l.keyers == nil {
		return nil
	}
	return l.keyers[b.Port]
}

// unkeyed reports whether a record has come over an exchange without its key.
func unkeyed(b *stream.Batch) bool {
	for i := range b.Records {
		if b.Records[i].Group == nil {
			return true
		}
	}
	return false
}

// rekey computes keys in place and leaves out the records that have none.
func (l *link) rekey(b *stream.Batch, k Keyer) (*stream.Batch, error) {
	bad := 0
	err := k.Key(b, func(i int, err error) {
		bad++
		b.Records[i].Group = nil
		l.out.Reject(b.Records[i], err)
	})
	if err != nil || bad == 0 {
		return b, err
	}
	d := b.Derive(b.Schema)
	for i := range b.Records {
		if b.Records[i].Group != nil {
			d.Append(b.Records[i])
		}
	}
	b.Release()
	return d, nil
}

// drain is step R2: it hands on what the component has emitted, depth first, until nothing is
// left. A record rejected under the policy Fail ends the attempt here.
func (l *link) drain(ctx context.Context) error {
	o := l.out
	for {
		o.seal()
		if len(o.queue) == 0 && len(o.sides) == 0 {
			return o.failed
		}
		main, sides := o.queue, o.sides
		o.queue, o.sides = o.spare[:0], nil // delivering may reject, and emit again
		for i, b := range main {
			main[i] = nil
			l.c.RecordsOut.Add(int64(len(b.Records)))
			if err := l.deliver(ctx, "", b); err != nil {
				return err
			}
		}
		o.spare = main
		for _, s := range sides {
			if err := l.deliver(ctx, s.tag, s.b); err != nil {
				return err
			}
		}
	}
}

// deliver gives every child of an output its reference to b.
func (l *link) deliver(ctx context.Context, tag stream.Tag, b *stream.Batch) (err error) {
	defer b.Release()
	for _, c := range l.children {
		if c.tag != tag || err != nil {
			continue
		}
		if c.to != nil {
			b.Retain()
			err = c.to.push(ctx, b)
			continue
		}
		l.env.Listener.Did("R3", l.env.Task(), stream.NoCheckpoint)
		err = c.ex.route(ctx, b)
	}
	return err
}

// settle drains again while call says that there is more.
func (l *link) settle(ctx context.Context, call func() (more bool, err error)) error {
	for {
		more, err := call()
		if err != nil {
			return err
		}
		if err := l.drain(ctx); err != nil || !more {
			return err
		}
	}
}

// release gives up whatever was emitted and will not be handed on.
func (l *link) release() {
	l.out.release()
	for _, c := range l.children {
		if c.ex != nil {
			c.ex.release()
		}
	}
}
