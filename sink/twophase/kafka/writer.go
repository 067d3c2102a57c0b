package kafka

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/broken"
	"etl/internal/fault"
	"etl/internal/kafkaconn"
	"etl/sink"
	"etl/sink/kafkatxn"
	"etl/state"
	"etl/stream"
)

// Writer is phase one of one subtask; see the package comment.
type Writer struct {
	cfg Config
	env stream.Env

	raw     *kafkatxn.Client
	factory *factory
	slots   *slots
	part    kafkatxn.Partitioner
	taker   kafkaconn.Taker

	ctx    context.Context // the writer's life
	cancel context.CancelFunc
	wg     sync.WaitGroup

	// The rest belongs to the task goroutine.
	cur     *epoch    // the open epoch, nil before its first row
	prev    *epoch    // the sealed epoch with rows before it, nil when settled
	spare   *producer // taken for an epoch that had no row after all
	scratch []*kgo.Record
}

// NewWriter returns a writer of a sink. Config need not have its defaults.
func NewWriter(cfg Config) *Writer { return &Writer{cfg: cfg.WithDefaults()} }

var _ sink.Writer = (*Writer)(nil)

// Open connects, checks the transaction timeout against the brokers, and begins to
// initialise the first transactional id. A writer has no state of its own.
func (w *Writer) Open(ctx context.Context, env stream.Env, _ []state.Handle) error {
	w.env = env
	if w.env.Counters == nil {
		w.env.Counters = new(stream.Counters)
	}
	if w.cfg.Conn.Dial == nil {
		w.cfg.Conn.Dial = env.Dial
	}
	if w.cfg.Conn.Log == nil {
		w.cfg.Conn.Log = env.Log
	}
	w.ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := w.open(ctx); err != nil {
		return fmt.Errorf("open sink %s: %w", env.Task(), err)
	}
	return nil
}

func (w *Writer) open(ctx context.Context) (err error) {
	names := w.cfg.names(w.env.Job, w.env.UID, w.env.Lineage)
	if w.raw, err = kafkatxn.Open(ctx, w.cfg.options(w.env.World, names, w.cfg.TransactionTimeout)); err != nil {
		return err
	}
	timeout, err := kafkatxn.Timeout(w.cfg.TransactionTimeout, w.raw.Limits)
	if err != nil {
		return err
	}
	w.raw.SetTimeout(timeout)
	w.part.First = uint64(w.env.Subtask)
	w.slots = newSlots(w.cfg.Slots())
	w.factory = &factory{cfg: &w.cfg, env: &w.env, raw: w.raw, timeout: timeout, part: &w.part, slots: w.slots,
		live: map[*kgo.Client]bool{}, ready: make(chan *producer), failed: make(chan struct{})}
	if !w.cfg.transactional() {
		w.spare, err = w.factory.idempotent(ctx)
		return err
	}
	if err := w.raw.Preflight(ctx, w.env.Subtask, w.env.Attempt); err != nil {
		return err
	}
	w.wg.Go(func() { w.factory.run(w.ctx) })
	return nil
}

// Write sends the rows of b, or holds them while the last epoch is not acknowledged
// (R7). It takes over the reference to b.
func (w *Writer) Write(ctx context.Context, b *stream.Batch, out sink.Output) error {
	if len(b.Records) == 0 {
		b.Release()
		return nil
	}
	e, err := w.begun(ctx)
	if err != nil {
		b.Release()
		return err
	}
	recs := w.encode(b, out)
	if len(recs) == 0 {
		return nil
	}
	w.count(e, recs)
	return w.send(ctx, e, recs)
}

// begun returns the open epoch, beginning it if need be. It waits for a producer, and
// so, when all slots are prepared, for an unresolved commit.
func (w *Writer) begun(ctx context.Context) (*epoch, error) {
	if w.cur != nil {
		return w.cur, w.cur.err()
	}
	p := w.spare
	if p == nil {
		var err error
		if p, err = w.factory.take(ctx); err != nil {
			return nil, err
		}
	}
	w.spare = nil
	fault.Point("kafka.begin")
	w.cur = newEpoch(w.ctx, p, w.cfg.InFlightBytes, w.prev, w.env.Clock.Now())
	return w.cur, nil
}

func (w *Writer) count(e *epoch, recs []*kgo.Record) {
	n := int64(0)
	for _, r := range recs {
		n += int64(len(r.Key) + len(r.Value))
	}
	e.rows += int64(len(recs))
	e.bytes += n
	w.env.Counters.RecordsOut.Add(int64(len(recs)))
	w.env.Counters.BytesOut.Add(n)
	if w.cfg.transactional() {
		w.env.Counters.Uncommitted.Add(int64(len(recs)))
	}
}

// send sends rows when all rows before them on any partition are acknowledged (I15).
func (w *Writer) send(ctx context.Context, e *epoch, recs []*kgo.Record) error {
	if w.mustHold() {
		if held, err := w.hold(ctx, e, recs); held || err != nil {
			return err
		}
	}
	w.prev = nil
	if len(e.held) > 0 {
		held := e.held
		e.held, e.heldBy = nil, 0
		if err := e.produce(ctx, held); err != nil {
			return err
		}
	}
	return e.produce(ctx, recs)
}

func (w *Writer) mustHold() bool {
	return w.prev != nil && !w.prev.isSettled() && w.cfg.transactional() && !broken.Is(broken.EpochBeforeAcknowledged)
}

// hold puts rows into the hold queue. When it is full it waits until the last epoch is
// settled, and returns false: the rows go out then.
func (w *Writer) hold(ctx context.Context, e *epoch, recs []*kgo.Record) (held bool, err error) {
	if err := w.prev.err(); err != nil {
		return false, err
	}
	if e.heldBy >= w.cfg.HoldBytes {
		return false, w.prev.awaitSettled(ctx)
	}
	for _, r := range recs {
		e.heldBy += kafkatxn.Cost(r)
	}
	e.held = append(e.held, recs...)
	return true, nil
}

// PrepareCommit seals the open epoch (B4). It waits for nothing. An epoch that has failed
// stays the open one: no row is taken after it (I16).
func (w *Writer) PrepareCommit(_ context.Context, id stream.CheckpointID, _ sink.Output) (sink.Pending, error) {
	e := w.cur
	if e == nil {
		return &pending{}, nil
	}
	if err := e.err(); err != nil {
		return nil, err
	}
	w.cur = nil
	if e.rows == 0 {
		w.spare = e.p // every row was rejected: its transaction was never begun
		return &pending{}, nil
	}
	e.seal()
	if !w.cfg.transactional() {
		w.spare = e.p
		return &pending{w: w, e: e, id: id}, nil
	}
	w.slots.prepare(e.p.slot, id, e.rows)
	w.prev = e
	return &pending{w: w, e: e, id: id}, nil
}

// refresh keeps what is known about topics fresh in the modes without transactions, where
// no producer is made after the first. What was known stays when it fails.
func (w *Writer) refresh(ctx context.Context) {
	if err := w.factory.limits.Refresh(ctx, w.raw, w.env.Clock.Now()); err != nil {
		w.env.Log.Info("settings of topics not refreshed", "err", err)
	}
}

// Published has nothing to do: rows are with the brokers before a checkpoint is.
func (w *Writer) Published(stream.CheckpointID) {}

// Resolved moves slots on. It comes from the ledger at any time.
func (w *Writer) Resolved(id stream.CheckpointID, retired bool) {
	if w.slots == nil {
		return
	}
	w.env.Counters.Uncommitted.Add(-w.slots.resolve(id, retired))
}

// Aborted has nothing to do: the transaction of an aborted checkpoint stays prepared,
// and the next checkpoint lists it (I7).
func (w *Writer) Aborted(context.Context, stream.CheckpointID) error { return nil }

// Close frees resources. What is prepared or open stays with the brokers: the ledger,
// the next attempt, or the timeout ends it.
func (w *Writer) Close() error {
	if w.cancel == nil {
		return nil
	}
	w.cancel()
	w.wg.Wait()
	if w.factory != nil {
		w.factory.close()
	}
	if w.raw != nil {
		w.raw.Close()
	}
	return nil
}
