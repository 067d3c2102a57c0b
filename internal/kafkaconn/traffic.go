package kafkaconn

import (
	"cmp"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Traffic counts what clients do, by broker. The zero value is ready; clients that come
// and go, as those of transactions do, share one. Hooks add to plain counters, which are
// read when somebody asks: one that recorded a measurement for each request and batch
// would pay for its labels each time.
type Traffic struct {
	brokers atomic.Pointer[map[int32]*counts] // copied to be changed
	adding  sync.Mutex
}

// SeedBroker stands for the brokers whose number is not known yet.
const SeedBroker int32 = -1

// BrokerTraffic is what clients have done with one broker since the beginning.
type BrokerTraffic struct {
	Broker int32 // SeedBroker, or its number

	Connects, ConnectErrors, Disconnects           int64
	WriteBytes, WriteErrors, ReadBytes, ReadErrors int64
	// Bytes of records are those before compression.
	ProduceRecords, ProduceBytes, FetchRecords, FetchBytes int64
	// Throttled is how long the broker had clients wait, for their quota.
	Throttled time.Duration
}

type counts struct {
	connects, connectErrors, disconnects                   atomic.Int64
	writeBytes, writeErrors, readBytes, readErrors         atomic.Int64
	produceRecords, produceBytes, fetchRecords, fetchBytes atomic.Int64
	throttled                                              atomic.Int64
}

var _ interface {
	kgo.HookBrokerConnect
	kgo.HookBrokerDisconnect
	kgo.HookBrokerWrite
	kgo.HookBrokerRead
	kgo.HookBrokerThrottle
	kgo.HookProduceBatchWritten
	kgo.HookFetchBatchRead
} = (*Traffic)(nil)

// Brokers returns the counts, in order of the brokers. Any goroutine.
func (t *Traffic) Brokers() (out []BrokerTraffic) {
	all := t.brokers.Load()
	if all == nil {
		return nil
	}
	for n, c := range *all {
		out = append(out, BrokerTraffic{Broker: n,
			Connects: c.connects.Load(), ConnectErrors: c.connectErrors.Load(), Disconnects: c.disconnects.Load(),
			WriteBytes: c.writeBytes.Load(), WriteErrors: c.writeErrors.Load(), ReadBytes: c.readBytes.Load(), ReadErrors: c.readErrors.Load(),
			ProduceRecords: c.produceRecords.Load(), ProduceBytes: c.produceBytes.Load(), FetchRecords: c.fetchRecords.Load(), FetchBytes: c.fetchBytes.Load(),
			Throttled: time.Duration(c.throttled.Load())})
	}
	slices.SortFunc(out, func(a, b BrokerTraffic) int { return cmp.Compare(a.Broker, b.Broker) })
	return out
}

// of returns the counts of a broker.
func (t *Traffic) of(m kgo.BrokerMetadata) *counts {
	n := max(m.NodeID, SeedBroker) // kgo gives seeds numbers far below
	if all := t.brokers.Load(); all != nil && (*all)[n] != nil {
		return (*all)[n]
	}
	t.adding.Lock()
	defer t.adding.Unlock()
	next := map[int32]*counts{}
	if all := t.brokers.Load(); all != nil {
		maps.Copy(next, *all)
	}
	if next[n] == nil {
		next[n] = &counts{}
	}
	t.brokers.Store(&next)
	return next[n]
}

// OnBrokerConnect implements a hook of kgo, as do all that follow.
func (t *Traffic) OnBrokerConnect(m kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err != nil {
		t.of(m).connectErrors.Add(1)
		return
	}
	t.of(m).connects.Add(1)
}

// OnBrokerDisconnect counts connections that ended, for whatever reason.
func (t *Traffic) OnBrokerDisconnect(m kgo.BrokerMetadata, _ net.Conn) { t.of(m).disconnects.Add(1) }

// OnBrokerWrite counts what was sent.
func (t *Traffic) OnBrokerWrite(m kgo.BrokerMetadata, _ int16, n int, _, _ time.Duration, err error) {
	c := t.of(m)
	c.writeBytes.Add(int64(n))
	if err != nil {
		c.writeErrors.Add(1)
	}
}

// OnBrokerRead counts what was received.
func (t *Traffic) OnBrokerRead(m kgo.BrokerMetadata, _ int16, n int, _, _ time.Duration, err error) {
	c := t.of(m)
	c.readBytes.Add(int64(n))
	if err != nil {
		c.readErrors.Add(1)
	}
}

// OnBrokerThrottle counts the time of quotas.
func (t *Traffic) OnBrokerThrottle(m kgo.BrokerMetadata, d time.Duration, _ bool) {
	t.of(m).throttled.Add(int64(d))
}

// OnProduceBatchWritten counts records that were sent.
func (t *Traffic) OnProduceBatchWritten(m kgo.BrokerMetadata, _ string, _ int32, b kgo.ProduceBatchMetrics) {
	c := t.of(m)
	c.produceRecords.Add(int64(b.NumRecords))
	c.produceBytes.Add(int64(b.UncompressedBytes))
}

// OnFetchBatchRead counts records that were received.
func (t *Traffic) OnFetchBatchRead(m kgo.BrokerMetadata, _ string, _ int32, b kgo.FetchBatchMetrics) {
	c := t.of(m)
	c.fetchRecords.Add(int64(b.NumRecords))
	c.fetchBytes.Add(int64(b.UncompressedBytes))
}
