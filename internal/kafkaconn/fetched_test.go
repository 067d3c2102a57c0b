package kafkaconn

import (
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"etl/stream"
)

func TestFetchedTake(t *testing.T) {
	recs := []*kgo.Record{{Value: []byte("a")}, {Value: []byte("b")}}
	first := recs[0]
	f := NewFetched(recs)
	var mine, other Taker
	claimed, again := f.Claim(&mine), f.Claim(&mine)
	if !claimed || !again || f.Claim(&other) {
		t.Error("the first claim, and only it, holds")
	}
	if f.Take(0) != first || f.Take(0) != nil {
		t.Error("a record is taken once")
	}
	f.Recycle()
	if recs[0] != nil || recs[1] != nil {
		t.Error("recycled records must not be reachable")
	}
}

func TestClaimsRace(t *testing.T) {
	f := NewFetched([]*kgo.Record{{}})
	var wg sync.WaitGroup
	var won sync.Map
	for i := range 8 {
		wg.Go(func() {
			var me Taker
			if f.Claim(&me) {
				won.Store(i, true)
			}
		})
	}
	wg.Wait()
	n := 0
	won.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d claimants", n)
	}
}

func TestRecordsPool(t *testing.T) {
	var p Records
	for _, n := range []int{0, 1, 2, 3, 500, 1 << 16, 1<<16 + 1} {
		s := p.GetRecords(n)
		if len(s) != 0 || cap(s) < n {
			t.Errorf("asked %d, got len %d cap %d", n, len(s), cap(s))
		}
		p.PutRecords(s)
		if again := p.GetRecords(n); cap(again) < n || len(again) != 0 {
			t.Errorf("again %d: cap %d", n, cap(again))
		}
	}
	p.PutRecords(make([]kgo.Record, 0, 700)) // serves requests up to 512 only
	if s := p.GetRecords(700); cap(s) < 700 {
		t.Errorf("cap %d", cap(s))
	}
}

func TestHeadersShareMemory(t *testing.T) {
	hs := []kgo.RecordHeader{{Key: "a", Value: []byte{1}}, {Key: "a"}, {Key: "", Value: []byte{}}}
	s := StreamHeaders(hs)
	if len(s) != 3 || s[0].Key != "a" || s[1].Value != nil || s[2].Value == nil {
		t.Errorf("%v", s)
	}
	if k := KafkaHeaders(s); &k[0] != &hs[0] {
		t.Error("copied")
	}
	if StreamHeaders(nil) != nil || KafkaHeaders(nil) != nil {
		t.Error("null headers")
	}
}

// A record that a sink took is recycled by it, the others by the batch; only then
// does the pooled slice go back.
func TestPooledFetchRoundTrip(t *testing.T) {
	c := cluster(t, kfake.SeedTopics(1, "t"))
	// Nothing goes out before the flush: all records are one batch, and so one slice.
	prod := client(t, Config{SeedBrokers: c.ListenAddrs()}, kgo.DefaultProduceTopic("t"), kgo.ManualFlushing())
	for range 10 {
		prod.Produce(t.Context(), &kgo.Record{Key: []byte("k"), Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "h"}}}, nil)
	}
	if err := prod.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	pool := &counting{}
	cons := client(t, Config{SeedBrokers: c.ListenAddrs()}, kgo.ConsumeTopics("t"), kgo.WithPools(pool))
	var recs []*kgo.Record
	for len(recs) < 10 {
		recs = append(recs, cons.PollFetches(t.Context()).Records()...)
	}
	f := NewFetched(recs)
	b := stream.NewOriginBatch(nil, f, func(b *stream.Batch) { b.Origin().(*Fetched).Recycle() })
	var me Taker
	if !f.Claim(&me) {
		t.Fatal("claim")
	}
	r := f.Take(3)
	b.Release()
	if pool.back() != 0 {
		t.Error("a slice went back while a record of it is in use")
	}
	if string(r.Value) != "v" {
		t.Errorf("taken record %v", r)
	}
	r.Recycle()
	if got := pool.back(); got != pool.out {
		t.Errorf("%d slices of %d came back", got, pool.out)
	}
}

type counting struct {
	Records
	mu       sync.Mutex
	out, put int
}

func (c *counting) GetRecords(n int) []kgo.Record {
	c.mu.Lock()
	c.out++
	c.mu.Unlock()
	return c.Records.GetRecords(n)
}

func (c *counting) PutRecords(s []kgo.Record) {
	c.mu.Lock()
	c.put++
	c.mu.Unlock()
	c.Records.PutRecords(s)
}

func (c *counting) back() int { c.mu.Lock(); defer c.mu.Unlock(); return c.put }
