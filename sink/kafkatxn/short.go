package kafkatxn

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/fault"
	"etl/internal/kafkaconn"
	"etl/sink"
	"etl/stream"
)

// Short is a short transaction: the rows of one epoch and its marker, written and
// committed by one delivery, under the one stable id of its lane.
//
//	first delivery of a process, or after one whose end is not known:
//	  describe, repair, abort, clean, seal     as a fence does: evidence first
//	InitProducerID                             whoever delivers beside it is fenced
//	read the marker                            there: nothing is to be done
//	rows, marker, EndTxn, verify, heal
//
// Between InitProducerID and the end nobody else can commit under the id, so what the
// marker said stays true. Nothing is prepared, so nothing can time out between deliveries:
// the brokers may be away for longer than any transaction lives.
//
// The note of the marker names the attempt that wrote it. A fence writes the marker again
// under its own attempt, and a stopped process of a lower attempt that goes on finds that
// and stops.
type Short struct {
	Subtask    int
	Checkpoint stream.CheckpointID
	// Attempt delivers.
	Attempt stream.Attempt
	// Since is before any delivery of the epoch: a marker that is missing longer than
	// markers are kept proves nothing.
	Since time.Time
	// Rows calls produce with each row in order. Its memory must stay as it is until the
	// delivery has ended.
	Rows func(produce func(*kgo.Record) error) error
	// Client are the options of the producer: partitions, compression.
	Client []kgo.Opt
}

// shortLane is what this process knows of a lane's id.
type shortLane struct {
	mu sync.Mutex
	// known: the last transaction under the id was this process's, and is verified.
	known bool
}

// Shorts delivers short transactions of one sink.
type Shorts struct {
	c     *Client
	mu    sync.Mutex
	lanes map[int]*shortLane
}

// NewShorts returns what delivers through a client, whose timeout must be set.
func NewShorts(c *Client) *Shorts { return &Shorts{c: c, lanes: map[int]*shortLane{}} }

func (s *Shorts) lane(subtask int) *shortLane {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[subtask]
	if l == nil {
		l = &shortLane{}
		s.lanes[subtask] = l
	}
	return l
}

// Deliver commits the rows of an epoch, once: an epoch whose marker is there is left as it
// is. Errors of class Retry mean that the same delivery may be tried again.
func (s *Shorts) Deliver(ctx context.Context, d Short) (r sink.Result, err error) {
	err = s.under(ctx, d.Subtask, d.Client, func(p *shortProducer, m Marker) error {
		fault.Point("wal.kafka.initialised")
		switch owner := noteAttempt(m.Note); {
		case owner > d.Attempt:
			return stream.Errorf(stream.Fenced, "kafka.fenced", "deliver", p.txn.TxID, "attempt %d has taken the lane over (marker %s)", owner, m.Checkpoint)
		case m.Checkpoint >= d.Checkpoint:
			r = sink.Result{Outcome: sink.Already, ByMarker: true, Detail: fmt.Sprintf("the marker is %s (%s)", m.Checkpoint, m.Note)}
			return nil
		case m.Checkpoint == stream.NoCheckpoint && m.Note == "" && s.c.Expired(d.Since):
			r = sink.Result{Outcome: sink.Undecided, Detail: fmt.Sprintf("there is no marker, and one written at %s may have expired (offsets.retention %v)", d.Since.Format(time.RFC3339), s.c.Limits.OffsetsRetention)}
			return nil
		}
		if err := p.produce(ctx, d.Rows); err != nil {
			return err
		}
		fault.Point("wal.kafka.written")
		r, err = p.commit(ctx, d.Subtask, d.Checkpoint, shortNote(d.Attempt, "rows"))
		return err
	})
	return r, err
}

// Fence makes sure that no lower attempt can deliver on a lane any more: what it has open
// is ended, and the marker says from now on whose the lane is.
func (s *Shorts) Fence(ctx context.Context, attempt stream.Attempt, subtask int, opts []kgo.Opt) error {
	return s.under(ctx, subtask, opts, func(p *shortProducer, m Marker) error {
		if noteAttempt(m.Note) >= attempt || unchecked() {
			return nil // a later attempt keeps the earlier ones out for this one, too
		}
		note := shortNote(attempt, "fence")
		if r, err := p.commit(ctx, subtask, m.Checkpoint, note); err != nil || r.Outcome != sink.Done {
			return errors.Join(err, again("fence lane", "%s: %s", r.Outcome, r.Detail))
		}
		return s.noted(ctx, subtask, note)
	})
}

// notePatience is how long a fence waits for its own note: a commit is answered before its
// markers are written, and the number of the marker, which stays, does not tell.
const notePatience = 10 * time.Second

// noted returns when the marker of a lane has a note.
func (s *Shorts) noted(ctx context.Context, subtask int, note string) error {
	ctx, cancel := context.WithTimeout(ctx, notePatience)
	defer cancel()
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
		m, err := s.c.NewestMarker(ctx, s.c.o.Names.Group(subtask))
		if err != nil || m.Note == note {
			return err
		}
		if s.c.o.World.Clock.Sleep(ctx, wait) != nil {
			return again("fence lane", "the marker says %q instead of %q", m.Note, note)
		}
	}
}

func again(op, format string, args ...any) error {
	return stream.Errorf(stream.Retry, "kafka.short", op, "", format, args...)
}

func shortNote(a stream.Attempt, what string) string { return fmt.Sprintf("%d/%s", a, what) }

// noteAttempt returns which attempt wrote a marker, 0 when that cannot be told.
func noteAttempt(note string) stream.Attempt {
	text, _, _ := strings.Cut(note, "/")
	n, _ := strconv.ParseUint(text, 10, 32)
	return stream.Attempt(n)
}

// under makes the lane's id this call's alone, and calls f with a producer under it and
// the marker as it is then.
func (s *Shorts) under(ctx context.Context, subtask int, opts []kgo.Opt, f func(*shortProducer, Marker) error) error {
	l := s.lane(subtask)
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.known
	l.known = false
	if !known {
		if err := s.settle(ctx, s.c.o.Names.ShortID(subtask)); err != nil {
			return err
		}
	}
	p, err := s.producer(ctx, subtask, opts)
	if err != nil {
		return err
	}
	defer p.cl.Close()
	m, err := s.c.NewestMarker(ctx, s.c.o.Names.Group(subtask))
	if err != nil {
		return err
	}
	if err := f(p, m); err != nil {
		return err
	}
	l.known = p.known
	return nil
}

// settle ends what any process left under an id, and repairs what its coordinator left
// behind, before InitProducerID destroys the evidence.
func (s *Shorts) settle(ctx context.Context, txid string) error {
	f, err := s.c.newFence(ctx, nil)
	if err != nil {
		return err
	}
	return f.one(ctx, txid)
}

// shortProducer is a producer under the stable id of a lane, for one delivery.
type shortProducer struct {
	c     *Client
	cl    *kgo.Client
	txn   Txn
	start time.Time
	known bool // everything under the id is ended and verified

	mu      sync.Mutex
	sent    int64
	acked   int64
	sealed  bool
	failed  error
	settled chan struct{} // closed when all that was sent is acknowledged, or one has failed
	last    map[spot]int64
}

// producer initialises the id. Its client is fresh, so it has never been told of another
// transaction, and talks to a broker before it begins one: kgo decides at the begin, by
// what it knows then, which protocol the transaction follows (KIP-890).
func (s *Shorts) producer(ctx context.Context, subtask int, opts []kgo.Opt) (*shortProducer, error) {
	c := s.c
	txid := c.o.Names.ShortID(subtask)
	opts = append([]kgo.Opt{kgo.MaxBufferedBytes(shortBuffer), kgo.MaxBufferedRecords(1 << 20), kgo.UnknownTopicRetries(40)}, opts...)
	opts = append(opts, kgo.TransactionalID(txid), kgo.TransactionTimeout(c.o.Timeout), kgo.ConcurrentTransactionsBackoff(5*time.Millisecond), Caps(c.TV))
	cl, err := c.o.Conn.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	p := &shortProducer{c: c, cl: cl, known: true, settled: make(chan struct{}), last: map[spot]int64{}}
	pid, epoch, err := cl.ProducerID(ctx)
	if err == nil {
		p.txn, p.start = Txn{TxID: txid, PID: pid, Epoch: epoch, TV: c.TV}, c.o.World.Clock.Now()
		err = cl.BeginTransaction()
	}
	if err == nil {
		return p, nil
	}
	cl.Close()
	err = kafkaconn.Explain(err, "initialise transactional id "+txid, writeID(Txn{TxID: txid})...)
	if cl := stream.ClassOf(err); cl == stream.BadConfig || cl == stream.Environment && stream.CodeOf(err) != "kafka.coordinator" || ctx.Err() != nil {
		return nil, err
	}
	return nil, again("initialise transactional id", "%s: %w", txid, err)
}

// shortBuffer bounds what one delivery has sent and not seen acknowledged.
const shortBuffer = 32 << 20

// produce sends rows and returns when every one is acknowledged, by the very producer and
// epoch that the transaction was begun with. That a flush returned nil proves nothing.
func (p *shortProducer) produce(ctx context.Context, rows func(func(*kgo.Record) error) error) error {
	p.known = false
	pctx, cancel := context.WithTimeout(ctx, p.c.o.Timeout) // the transaction is dead after that
	defer cancel()
	err := rows(func(r *kgo.Record) error {
		p.mu.Lock()
		failed := p.failed
		p.sent++
		p.mu.Unlock()
		if failed != nil {
			return failed
		}
		p.cl.Produce(pctx, r, p.acknowledge)
		return nil
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.sealed = true
	p.settleLocked()
	p.mu.Unlock()
	flushed := make(chan struct{})
	go func() { defer close(flushed); _ = p.cl.Flush(pctx) }()
	select {
	case <-p.settled:
		err = p.failed
	case <-pctx.Done():
		err = again("deliver", "%w", context.Cause(pctx))
	}
	cancel()
	<-flushed
	return err
}

func (p *shortProducer) settleLocked() {
	if p.failed != nil || p.sealed && p.acked == p.sent {
		select {
		case <-p.settled:
		default:
			close(p.settled)
		}
	}
}

func (p *shortProducer) acknowledge(r *kgo.Record, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && (r.ProducerID != p.txn.PID || r.ProducerEpoch != p.txn.Epoch) {
		err = fmt.Errorf("written by producer %d epoch %d in a transaction of %d epoch %d", r.ProducerID, r.ProducerEpoch, p.txn.PID, p.txn.Epoch)
	}
	if err != nil {
		if p.failed == nil {
			p.failed = p.notProduced(r, err)
		}
	} else {
		p.acked++
		s := spot{r.Topic, r.Partition}
		p.last[s] = max(p.last[s], r.Offset)
	}
	p.settleLocked()
}

// notProduced says what was not written. Nothing of it is visible, and all of it is still
// where it came from.
func (p *shortProducer) notProduced(r *kgo.Record, err error) error {
	place := fmt.Sprintf("%s/%d", r.Topic, r.Partition)
	switch {
	case kafkaconn.Refused(err):
		return kafkaconn.Explain(err, "produce", kafkaconn.Access{Kind: kafkaconn.Topic, Name: r.Topic, Operation: "WRITE"},
			kafkaconn.Access{Kind: kafkaconn.TransactionalID, Name: p.txn.TxID, Operation: "WRITE"})
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.InvalidTimestamp), errors.Is(err, kerr.InvalidRecord):
		return stream.Errorf(stream.Failed, "kafka.row_after_publish", "deliver", place, "the brokers refuse a row of a published checkpoint: %w; the rows stay in the log", err).
			WithFix("let topic %s take it (max.message.bytes, message.timestamp.*) and start the job again", r.Topic)
	}
	return again("produce", "%s: %w", place, err)
}

// commit adds the marker, ends the transaction and returns when readers can see it.
func (p *shortProducer) commit(ctx context.Context, subtask int, id stream.CheckpointID, note string) (sink.Result, error) {
	p.known = false
	if err := p.c.Mark(ctx, p.txn, subtask, id, note); err != nil {
		if stream.ClassOf(err) == stream.Restart { // fenced, or given up: nothing of it is visible
			err = again("write marker", "%w", err)
		}
		return sink.Result{}, err
	}
	r, err := p.c.Commit(ctx, p.c.Payload(p.txn, subtask, 0, p.start, p.written()), id)
	switch {
	case err != nil:
		return r, err
	case r.Outcome == sink.Done || r.Outcome == sink.Already:
		p.known = true
	case r.Outcome == sink.Lost: // fenced by another delivery; the rows are still in the log
		return r, again("deliver", "%s", r.Detail)
	}
	return r, nil
}

func (p *shortProducer) written() (out []Written) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := map[string]int{}
	for s, offset := range p.last {
		i, ok := at[s.topic]
		if !ok {
			i = len(out)
			at[s.topic] = i
			out = append(out, Written{Topic: s.topic})
		}
		out[i].Partitions, out[i].Last = append(out[i].Partitions, s.partition), append(out[i].Last, offset)
	}
	return out
}

// Expired reports whether a marker that was written at some time since may have been
// forgotten by the group coordinator.
func (c *Client) Expired(since time.Time) bool {
	return c.mayHaveExpired(&Payload{StartMillis: since.UnixMilli()})
}

// ShortID returns the stable transactional id of a lane's short transactions. It carries
// no attempt: every delivery of any attempt fences the one before.
func (n Names) ShortID(subtask int) string {
	return n.shorts() + n.Lineage.Short() + "." + strconv.Itoa(subtask)
}

func (n Names) shorts() string {
	return n.prefix() + ".short." + component(n.Job) + "." + component(string(n.Sink)) + "."
}

// ParseShortID reads the id of short transactions of this job and sink, of any lineage.
func (n Names) ParseShortID(s string) (lineage8 string, subtask int, ok bool) {
	rest, ok := strings.CutPrefix(s, n.shorts())
	lineage8, num, cut := strings.Cut(rest, ".")
	v, isNum := sink.ParseNumber(num, 31)
	return lineage8, int(v), ok && cut && isNum && sink.IsLineage8(lineage8)
}

// Lanes returns the subtasks that have delivered under this lineage, as far as the
// coordinators know.
func (s *Shorts) Lanes(ctx context.Context) (subtasks []int, err error) {
	err = s.listed(ctx, func(_, lineage8 string, subtask int, _ string) {
		if lineage8 == s.c.o.Names.Lineage.Short() {
			subtasks = append(subtasks, subtask)
		}
	})
	return subtasks, err
}

func (s *Shorts) listed(ctx context.Context, f func(txid, lineage8 string, subtask int, state string)) error {
	all, err := s.c.listIDs(ctx, s.c.o.Names.shorts(), nil)
	for txid, t := range all {
		if lineage8, subtask, ok := s.c.o.Names.ParseShortID(txid); ok {
			f(txid, lineage8, subtask, t.State)
		}
	}
	return err
}

// Inspect lists the deliveries that are under way, or were left so, read-only.
func (s *Shorts) Inspect(ctx context.Context) ([]sink.InDoubt, error) {
	var out []sink.InDoubt
	var ids []string
	err := s.listed(ctx, func(txid, lineage8 string, subtask int, state string) {
		if state == stateOngoing || (seen{state: state}).unsettled() {
			ids = append(ids, txid)
			out = append(out, sink.InDoubt{ID: txid, Subtask: subtask, State: state, Detail: "lineage " + lineage8})
		}
	})
	if err != nil {
		return nil, err
	}
	states, err := s.c.describe(ctx, ids...)
	if err != nil {
		return nil, err
	}
	rest := out[:0]
	for _, d := range out {
		x := states[d.ID]
		if !x.found || x.state != stateOngoing && !x.unsettled() {
			continue
		}
		d.State = x.state
		if !x.start.IsZero() {
			d.Age = s.c.o.World.Clock.Now().Sub(x.start)
		}
		d.Detail += fmt.Sprintf(", producer %d epoch %d, on %s; the next delivery ends it, or the broker %v after its start", x.pid, x.epoch, partitionList(x), x.timeout)
		rest = append(rest, d)
	}
	return sortInDoubt(rest), nil
}
