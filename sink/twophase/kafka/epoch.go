package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/broken"
	"etl/internal/kafkaconn"
	"etl/sink/kafkatxn"
	"etl/stream"
)

// epoch is the rows between two barriers, on one producer.
//
// Until it is sealed the task goroutine owns it; afterwards its Finish does. kgo's
// promise goroutine, of which there is one at a time per producer, owns the fields
// below "promises only". What crosses is atomic.
type epoch struct {
	p        *producer
	inFlight int64           // bound of what is sent and not acknowledged
	ctx      context.Context // the writer's life; see produce
	prev     *epoch          // the epoch before with rows, nil when it was settled at the start
	start    time.Time       // at or before the first row was sent

	rows   int64
	bytes  int64
	held   []*kgo.Record // rows that wait for prev, in order
	heldBy int64         // their cost
	sent   int64         // cost of all rows sent

	total   atomic.Int64 // rows, once sealed
	acked   atomic.Int64 // good promises
	done    atomic.Int64 // cost of what was acknowledged, in steps
	waiting atomic.Bool  // somebody waits for done to grow
	wake    chan struct{}
	settled chan struct{} // closed when all rows are acknowledged
	closed  atomic.Bool   // settled is
	failure atomic.Pointer[error]
	failed  chan struct{} // closed when failure is set

	// Promises only.
	promise func(*kgo.Record, error)
	step    int64
	last    []written
}

// written is the last acknowledged offset of each partition of a topic, -1 for none.
type written struct {
	topic string
	last  []int64
}

const unsealed = math.MaxInt64

func newEpoch(ctx context.Context, p *producer, inFlight int64, prev *epoch, start time.Time) *epoch {
	e := &epoch{p: p, inFlight: inFlight, ctx: ctx, prev: prev, start: start,
		wake: make(chan struct{}, 1), settled: make(chan struct{}), failed: make(chan struct{})}
	e.total.Store(unsealed)
	e.promise = e.acknowledge
	return e
}

// stepBytes is how much is acknowledged before it is told to whoever waits.
const stepBytes = 64 << 10

// acknowledge is the promise of every row. It must be quick: kgo calls it serially.
func (e *epoch) acknowledge(r *kgo.Record, err error) {
	if err == nil && e.p.slot != nil && (r.ProducerID != e.p.txn.PID || r.ProducerEpoch != e.p.txn.Epoch) {
		err = fmt.Errorf("written by producer %d epoch %d in a transaction of %d epoch %d", r.ProducerID, r.ProducerEpoch, e.p.txn.PID, e.p.txn.Epoch)
	}
	switch {
	case err == nil:
		e.note(r)
	case !broken.Is(broken.FlushErrorsIgnored):
		e.fail(e.notProduced(r, err))
		recycle(r)
		return
	}
	e.step += kafkatxn.Cost(r)
	recycle(r)
	if e.step >= stepBytes {
		e.done.Add(e.step)
		e.step = 0
		if e.waiting.Load() {
			select {
			case e.wake <- struct{}{}:
			default:
			}
		}
	}
	if e.acked.Add(1) == e.total.Load() {
		e.settle()
	}
}

// note remembers the offset of an acknowledged row.
func (e *epoch) note(r *kgo.Record) {
	i := 0
	for ; i < len(e.last) && e.last[i].topic != r.Topic; i++ {
	}
	if i == len(e.last) {
		e.last = append(e.last, written{topic: r.Topic})
	}
	w := &e.last[i]
	for int(r.Partition) >= len(w.last) {
		w.last = append(w.last, -1)
	}
	w.last[r.Partition] = max(w.last[r.Partition], r.Offset)
}

// notProduced says what was not written. The attempt ends: the row is in the source.
// A right that is missing ends the job: another attempt would miss it, too.
func (e *epoch) notProduced(r *kgo.Record, err error) error {
	if kafkaconn.Refused(err) {
		return kafkaconn.Explain(err, "produce", kafkaconn.Access{Kind: kafkaconn.Topic, Name: r.Topic, Operation: "WRITE"},
			kafkaconn.Access{Kind: kafkaconn.TransactionalID, Name: e.p.txn.TxID, Operation: "WRITE"})
	}
	f := &stream.Error{Class: stream.Restart, Code: "kafka.produce_failed", Op: "produce",
		Subject: fmt.Sprintf("%s/%d", r.Topic, r.Partition), Err: err}
	if errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.InvalidTimestamp) {
		f.Fix = "grant DESCRIBE_CONFIGS on topic " + r.Topic + ", so that the sink knows its limits and can reject the row by itself"
	}
	return f
}

// recycle returns a record to where it came from: a slab of ours, or the pool of the
// client that fetched it.
func recycle(r *kgo.Record) {
	if s, ok := r.Context.(*slab); ok {
		s.done(r)
		return
	}
	r.Recycle()
}

func (e *epoch) settle() {
	if e.closed.CompareAndSwap(false, true) {
		close(e.settled)
	}
}

func (e *epoch) fail(err error) {
	if e.failure.CompareAndSwap(nil, &err) {
		close(e.failed)
	}
}

// err returns the first failure, nil for none.
func (e *epoch) err() error {
	if p := e.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// seal fixes the number of rows: settled is theirs from now on.
func (e *epoch) seal() {
	e.total.Store(e.rows)
	if e.acked.Load() == e.rows {
		e.settle()
	}
}

func (e *epoch) isSettled() bool { return e.closed.Load() }

// produce sends rows in order, waiting while too much is in flight. The records' own
// context is the writer's life: a call's context that ends while the record is on its
// way would fail the record, and with it the attempt.
func (e *epoch) produce(ctx context.Context, recs []*kgo.Record) error {
	for _, r := range recs {
		if e.sent-e.done.Load() > e.inFlight {
			if err := e.await(ctx); err != nil {
				return err
			}
		}
		e.sent += kafkatxn.Cost(r)
		e.p.cl.Produce(e.ctx, r, e.promise)
	}
	return e.err()
}

// await returns when half of what may be in flight is acknowledged.
func (e *epoch) await(ctx context.Context) error {
	e.waiting.Store(true)
	defer e.waiting.Store(false)
	for e.sent-e.done.Load() > e.inFlight/2+stepBytes {
		select {
		case <-e.wake:
		case <-e.failed:
			return e.err()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// awaitSettled returns when every row is acknowledged.
func (e *epoch) awaitSettled(ctx context.Context) error {
	select {
	case <-e.settled:
		return e.err()
	case <-e.failed:
		return e.err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// flush sends what lingers and returns when every row is acknowledged. That kgo's own
// Flush returns nil is no evidence: promises of refused records may come later.
func (e *epoch) flush(ctx context.Context) error {
	fctx, cancel := context.WithCancel(ctx)
	defer cancel()
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		_ = e.p.cl.Flush(fctx)
	}()
	err := e.awaitSettled(ctx)
	cancel()
	<-flushed
	return err
}

// wrote returns the partitions the epoch wrote to. It is called once all is settled.
func (e *epoch) wrote() (out []kafkatxn.Written) {
	for _, w := range e.last {
		x := kafkatxn.Written{Topic: w.topic}
		for p, last := range w.last {
			if last >= 0 {
				x.Partitions, x.Last = append(x.Partitions, int32(p)), append(x.Last, last)
			}
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b kafkatxn.Written) int {
		if a.Topic < b.Topic {
			return -1
		}
		return 1
	})
	return out
}
