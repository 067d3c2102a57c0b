package kafkatxn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkaconn"
	"etl/sink"
	"etl/stream"
)

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
