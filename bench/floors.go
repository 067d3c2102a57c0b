package main

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// floorClient is a plain franz-go client that reads and writes: the way most
// programs would be written.
func floorClient(w *work, extra ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(w.broker), kgo.ConsumeTopics("in"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxBytes(32 << 20), kgo.FetchMaxPartitionBytes(4 << 20), kgo.MaxBufferedRecords(200_000),
		kgo.ProducerBatchMaxBytes(1<<20 - 100), kgo.ProducerLinger(5 * time.Millisecond), kgo.ProducerBatchCompression(kgo.NoCompression())}, extra...)...)
}

// floorLoop polls until all records were seen, then flushes.
func floorLoop(ctx context.Context, w *work, cl *kgo.Client, each func(*kgo.Record)) error {
	for w.meter.seen.Load() < int64(w.records) {
		n := 0
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			return err
		}
		fs.EachRecord(func(r *kgo.Record) {
			n++
			each(r)
		})
		w.meter.add(n)
	}
	return cl.Flush(ctx)
}

// floorCopy is the bare copy loop: no guarantee at all.
func floorCopy(ctx context.Context, w *work) error {
	cl, err := floorClient(w)
	if err != nil {
		return err
	}
	defer cl.Close()
	var p promise
	return p.and(floorLoop(ctx, w, cl, func(r *kgo.Record) {
		cl.Produce(ctx, &kgo.Record{Topic: "out", Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp}, p.done)
	}))
}

// floorCopyPooled is the best such loop: fetched records are produced again and
// their slices pooled.
func floorCopyPooled(ctx context.Context, w *work) error {
	cl, err := floorClient(w, kgo.WithPools(&recordPool{}), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer cl.Close()
	var p promise
	return p.and(floorLoop(ctx, w, cl, func(r *kgo.Record) {
		r.Topic = "out"
		//lint:ignore SA1012 the record's own context is what Recycle needs
		cl.Produce(nil, r, func(r *kgo.Record, err error) {
			p.done(r, err)
			r.Recycle()
		})
	}))
}

// floorCount counts in a Go map and writes every count: nothing is durable.
func floorCount(ctx context.Context, w *work) error {
	cl, err := floorClient(w)
	if err != nil {
		return err
	}
	defer cl.Close()
	var p promise
	counts := map[string]int64{}
	return p.and(floorLoop(ctx, w, cl, func(r *kgo.Record) {
		c := counts[string(r.Key)] + 1
		counts[string(r.Key)] = c
		cl.Produce(ctx, &kgo.Record{Topic: "out", Key: r.Key, Value: strconv.AppendInt(nil, c, 10), Timestamp: r.Timestamp}, p.done)
	}))
}

// promise keeps the first error of many records.
type promise struct {
	mu  sync.Mutex
	err error
}

func (p *promise) done(_ *kgo.Record, err error) {
	if err != nil {
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
	}
}

func (p *promise) and(err error) error {
	if err != nil {
		return err
	}
	return p.err
}

type recordPool struct{ p sync.Pool }

func (p *recordPool) GetRecords(n int) []kgo.Record {
	if v := p.p.Get(); v != nil {
		if s := *v.(*[]kgo.Record); cap(s) >= n {
			return s[:0]
		}
	}
	return make([]kgo.Record, 0, max(n, 16384))
}

func (p *recordPool) PutRecords(s []kgo.Record) { p.p.Put(&s) }
