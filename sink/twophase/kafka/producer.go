package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/fault"
	"etl/internal/kafkaconn"
	"etl/sink/kafkatxn"
	"etl/stream"
)

// producer is a kgo client that is ready to write: on one transactional id inside a
// begun transaction, or idempotent without one.
type producer struct {
	cl    *kgo.Client
	slot  *slot // nil without transactions
	txn   kafkatxn.Txn
	ready time.Time
}

// factory makes producers for one subtask, in the background.
type factory struct {
	cfg     *Config
	env     *stream.Env
	raw     *kafkatxn.Client
	timeout time.Duration
	part    *kafkatxn.Partitioner
	slots   *slots
	limits  kafkatxn.TopicLimits

	mu   sync.Mutex
	live map[*kgo.Client]bool // every client that is not closed

	ready chan *producer
	// failed is closed, and err set before, when no more will come.
	failed chan struct{}
	err    error
}

// run keeps one producer ready ahead of need until ctx ends or something fails that
// waiting does not mend.
func (f *factory) run(ctx context.Context) {
	for {
		p, err := f.next(ctx)
		if err != nil {
			f.err = err
			close(f.failed)
			return
		}
		select {
		case f.ready <- p:
		case <-ctx.Done():
			f.err = context.Cause(ctx)
			close(f.failed)
			return
		}
	}
}

// take returns a producer whose transactional id cannot have expired meanwhile.
func (f *factory) take(ctx context.Context) (*producer, error) {
	for {
		select {
		case p := <-f.ready:
			if p.slot == nil || f.env.Clock.Now().Sub(p.ready) < f.raw.Limits.IDExpiration/2 {
				return p, nil
			}
			f.drop(p.cl)
			f.slots.giveBack(p.slot)
		case <-f.failed:
			return nil, f.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// next makes the next producer, trying again as long as that can help.
func (f *factory) next(ctx context.Context) (*producer, error) {
	sl, err := f.slots.take(ctx)
	if err != nil {
		return nil, err
	}
	if p := f.again(ctx, sl); p != nil {
		return p, nil
	}
	begin := f.env.Clock.Now()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		p, err := f.fresh(ctx, sl)
		if err == nil {
			return p, nil
		}
		err = kafkaconn.Explain(err, "initialise transactional id", f.rights(sl)...)
		if c := stream.ClassOf(err); c == stream.BadConfig || c == stream.Environment && stream.CodeOf(err) != "kafka.coordinator" {
			return nil, err
		}
		if f.env.Clock.Now().Sub(begin) > f.timeout {
			return nil, &stream.Error{Class: stream.Restart, Code: "kafka.not_initialised", Op: "initialise transactional id", Subject: f.txid(sl), Err: err}
		}
		f.env.Log.Info("transactional id not initialised yet", "slot", sl.n, "err", err)
		if err := f.env.Clock.Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

func (f *factory) rights(sl *slot) []kafkaconn.Access {
	return []kafkaconn.Access{{Kind: kafkaconn.TransactionalID, Name: f.txid(sl), Operation: "WRITE"}}
}

func (f *factory) txid(sl *slot) string {
	return f.cfg.names(f.env.Job, f.env.UID, f.env.Lineage).TxID(f.env.Subtask, f.env.Attempt, sl.n)
}

// fresh makes a client that has never been used. It talks to a broker before it begins
// its transaction: kgo decides at the begin, by what it knows then, whether the
// transaction follows the old or the new protocol (KIP-890).
func (f *factory) fresh(ctx context.Context, sl *slot) (*producer, error) {
	if err := f.limits.Refresh(ctx, f.raw, f.env.Clock.Now()); err != nil {
		return nil, err
	}
	txid := f.txid(sl)
	fault.Point("kafka.init.before")
	// No kgo.RecordDeliveryTimeout: kgo counts it from the record's own timestamp, so
	// that every old record would time out before it was sent.
	cl, err := f.client(kgo.TransactionalID(txid), kgo.TransactionTimeout(f.timeout),
		kgo.ConcurrentTransactionsBackoff(5*time.Millisecond), kafkatxn.Caps(f.raw.TV))
	if err != nil {
		return nil, err
	}
	p := &producer{cl: cl, slot: sl}
	if err := f.begin(ctx, p, txid); err != nil {
		f.drop(cl)
		return nil, err
	}
	fault.Point("kafka.init.after")
	return p, nil
}

func (f *factory) begin(ctx context.Context, p *producer, txid string) error {
	pid, epoch, err := p.cl.ProducerID(ctx)
	if err != nil {
		return err
	}
	if err := p.cl.BeginTransaction(); err != nil {
		return err
	}
	p.txn = kafkatxn.Txn{TxID: txid, PID: pid, Epoch: epoch, TV: f.raw.TV}
	p.ready = f.env.Clock.Now()
	return nil
}

// again takes up the producer that was kept with a slot. Its transaction was committed
// by the committer's raw request and verified; ending it once more is a repetition that
// tells kgo the new epoch. Whatever is not as it must be, a fresh one is.
func (f *factory) again(ctx context.Context, sl *slot) *producer {
	p := f.slots.unkeep(sl)
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	before := p.txn
	err := p.cl.EndTransaction(ctx, kgo.TryCommit)
	if err == nil {
		err = f.begin(ctx, p, before.TxID)
	}
	if err == nil && (p.txn.PID != before.PID || p.txn.Epoch != before.Epoch+1) {
		err = fmt.Errorf("producer %d epoch %d follows %d epoch %d", p.txn.PID, p.txn.Epoch, before.PID, before.Epoch)
	}
	if err != nil {
		f.env.Log.Info("kept producer replaced by a fresh one", "slot", sl.n, "err", err)
		f.drop(p.cl)
		return nil
	}
	return p
}

// retire closes or keeps the producer of a transaction that is prepared. Closing never
// ends the transaction.
func (f *factory) retire(p *producer) {
	if f.cfg.keeps(f.raw.TV) {
		f.slots.keep(p.slot, p)
		return
	}
	f.drop(p.cl)
}

// client makes a producing client.
func (f *factory) client(more ...kgo.Opt) (*kgo.Client, error) {
	opts := append([]kgo.Opt{
		kgo.RecordPartitioner(f.part),
		kgo.ProducerBatchCompression(codecs[f.cfg.Compression]),
		kgo.ProducerLinger(f.cfg.Linger),
		kgo.ProducerBatchMaxBytesFn(f.limits.BatchBytes),
		// The sink bounds by itself what is in flight: kgo's own limit starts a
		// goroutine for each record that waits.
		kgo.MaxBufferedRecords(1 << 24),
		kgo.UnknownTopicRetries(unknownTopicRetries),
	}, more...)
	cl, err := f.cfg.Conn.NewClient(opts...)
	if err == nil {
		f.mu.Lock()
		f.live[cl] = true
		f.mu.Unlock()
	}
	return cl, err
}

// drop closes a client.
func (f *factory) drop(cl *kgo.Client) {
	f.mu.Lock()
	delete(f.live, cl)
	f.mu.Unlock()
	cl.Close()
}

// close closes whatever is left: an attempt may end with epochs in any condition.
func (f *factory) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for cl := range f.live {
		cl.Close()
	}
	clear(f.live)
}

// unknownTopicRetries: a broker that was just started may not know a topic for a few
// seconds; kgo's 4 looks are over sooner.
const unknownTopicRetries = 40

// idempotent makes the producer of the modes without transactions.
func (f *factory) idempotent(ctx context.Context) (*producer, error) {
	if err := f.limits.Refresh(ctx, f.raw, f.env.Clock.Now()); err != nil {
		return nil, err
	}
	cl, err := f.client()
	if err != nil {
		return nil, err
	}
	if _, _, err := cl.ProducerID(ctx); err != nil && !errors.Is(err, context.Canceled) {
		f.drop(cl)
		return nil, kafkaconn.Explain(err, "initialise producer")
	}
	return &producer{cl: cl}, nil
}
