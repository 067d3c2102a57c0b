package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// partitions is how many every input has.
const partitions = 3

// Feed writes the input of a job all the time: most of it plainly, some of it in
// transactions, of which every other one is aborted. Times of haste and of silence
// follow each other, unless it is even.
type Feed struct {
	broker *Broker
	topic  string
	maker  *maker
	rate   float64 // records per second, on average
	even   bool    // all the time
	cl     *kgo.Client
	cancel context.CancelFunc
	wg     sync.WaitGroup

	sent, aborted atomic.Int64

	mu   sync.Mutex
	next [partitions]int64
	errs []error
}

// NewFeed returns a feed that begins at once, and goes on at its rate or in times of
// haste and of silence.
func NewFeed(b *Broker, topic string, m *maker, rate float64, even bool) (*Feed, error) {
	cl, err := b.Client(kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(2*time.Millisecond),
		kgo.UnknownTopicRetries(-1))
	if err != nil {
		return nil, err
	}
	f := &Feed{broker: b, topic: topic, maker: m, rate: rate, even: even, cl: cl}
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	f.wg.Go(func() { f.plainly(ctx) })
	f.wg.Go(func() { f.inTransactions(ctx) })
	return f, nil
}

// Sent is how many records were written plainly.
func (f *Feed) Sent() int64 { return f.sent.Load() }

// take returns the next place of a partition.
func (f *Feed) take(part int32) place {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := place{part: part, seq: f.next[part]}
	f.next[part]++
	return p
}

func (f *Feed) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, err)
}

const feedTick = 10 * time.Millisecond

func (f *Feed) plainly(ctx context.Context) {
	r := rand.New(rand.NewPCG(f.maker.seed, 1))
	debt, pace := 0.0, 1.0
	for n := 0; pause(ctx, feedTick) == nil; n++ {
		if n%50 == 0 && !f.even {
			pace = []float64{0, 0.3, 1, 1, 1, 2, 3}[r.IntN(7)]
		}
		for debt += f.rate * pace * feedTick.Seconds(); debt >= 1; debt-- {
			f.send(int32(r.IntN(partitions)))
		}
	}
}

// send writes the next record of a partition. It is retried until it is there.
func (f *Feed) send(part int32) {
	f.cl.Produce(context.Background(), f.maker.make(f.take(part)), func(r *kgo.Record, err error) {
		if err != nil {
			f.fail(fmt.Errorf("feed %s/%d: %w", f.topic, r.Partition, err))
		}
	})
	f.sent.Add(1)
}

// Burst writes n records at once and returns when they are there.
func (f *Feed) Burst(ctx context.Context, n int) error {
	for i := range n {
		f.send(int32(i % partitions))
	}
	return f.cl.Flush(ctx)
}

// inTransactions writes a few records in each transaction, from one producer, and
// ends it as its turn is. What becomes of one that was interrupted, the input
// itself says in the end.
func (f *Feed) inTransactions(ctx context.Context) {
	r := rand.New(rand.NewPCG(f.maker.seed, 2))
	var cl *kgo.Client
	defer func() {
		if cl != nil {
			cl.Close()
		}
	}()
	for n := 0; pause(ctx, time.Duration(50+r.IntN(300))*time.Millisecond) == nil; n++ {
		if cl == nil {
			cl, _ = f.broker.Client(kgo.TransactionalID(f.topic+".feed"), kgo.TransactionTimeout(10*time.Second), kgo.DefaultProduceTopic(f.topic),
				kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.UnknownTopicRetries(-1))
		}
		if err := f.transaction(cl, r, n%2 == 0); err != nil {
			cl.Close() // the next one begins by ending what this one left
			cl = nil
		}
	}
}

func (f *Feed) transaction(cl *kgo.Client, r *rand.Rand, commit bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := errors.Join(cl.Ping(ctx), cl.BeginTransaction()); err != nil {
		return err
	}
	recs := make([]*kgo.Record, 1+r.IntN(5))
	part := int32(r.IntN(partitions))
	for i := range recs {
		recs[i] = f.maker.make(f.take(part))
	}
	if err := cl.ProduceSync(ctx, recs...).FirstErr(); err != nil {
		return err
	}
	if err := cl.EndTransaction(ctx, kgo.TransactionEndTry(commit)); err != nil {
		return err
	}
	if !commit {
		f.aborted.Add(int64(len(recs)))
	}
	return nil
}

// Pause ends the writing, for a time or for good; the last record of every
// partition is a plain one.
func (f *Feed) Pause(ctx context.Context) error {
	f.cancel()
	f.wg.Wait()
	if err := f.Burst(ctx, partitions); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.errs...)
}

// Close ends it.
func (f *Feed) Close() {
	f.cancel()
	f.wg.Wait()
	f.cl.Close()
}
