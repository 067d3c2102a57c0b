package kafkaconn

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestTraffic: clients that share a Traffic are counted together, by broker, with what
// goes wrong between them and the brokers.
func TestTraffic(t *testing.T) {
	c := cluster(t, kfake.SeedTopics(1, "t"))
	traffic := &Traffic{}
	cfg := Config{SeedBrokers: c.ListenAddrs(), Traffic: traffic}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cut, slowed := false, false
	c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		switch {
		case !cut:
			cut = true
			return nil, errors.New("the connection is cut"), true
		case !slowed:
			slowed = true
			resp := r.ResponseKind().(*kmsg.FetchResponse)
			resp.ThrottleMillis = 7
			return resp, nil, true
		}
		return nil, nil, false
	})
	for range 3 { // clients that come and go
		cl := client(t, cfg, kgo.DefaultProduceTopic("t"))
		if err := cl.ProduceSync(ctx, kgo.StringRecord("0123456789")).FirstErr(); err != nil {
			t.Fatal(err)
		}
		cl.Close()
	}
	nowhere := cfg
	nowhere.SeedBrokers = []string{"127.0.0.1:1"}
	lost := client(t, nowhere, kgo.RequestRetries(0), kgo.RetryTimeout(time.Second))
	if err := lost.Ping(ctx); err == nil {
		t.Fatal("somebody listens on port 1")
	}
	lost.Close()
	cl := client(t, cfg, kgo.ConsumeTopics("t"))
	for n := 0; n < 3; {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatal("no records")
		}
		n += fs.NumRecords()
	}
	cl.Close()
	sum, broker := totals(t, traffic)
	// The reader of a closed connection may be the one that notes its end, and a batch is
	// noted as written after its record is acknowledged.
	for tick := time.NewTicker(5 * time.Millisecond); (sum.Disconnects != sum.Connects || broker.ProduceRecords < 3) && ctx.Err() == nil; <-tick.C {
		sum, broker = totals(t, traffic)
	}
	if broker.ProduceRecords != 3 || broker.ProduceBytes < 30 || broker.FetchRecords != 3 || broker.FetchBytes < 30 {
		t.Errorf("records: %+v", broker)
	}
	if broker.WriteBytes < broker.ProduceBytes || broker.ReadBytes < broker.FetchBytes || broker.ReadErrors == 0 || broker.Throttled != 7*time.Millisecond {
		t.Errorf("requests: %+v", broker)
	}
	if sum.Connects < 4 || sum.ConnectErrors == 0 || sum.Disconnects != sum.Connects {
		t.Errorf("connections: %+v", sum)
	}
	traffic.OnBrokerWrite(kgo.BrokerMetadata{NodeID: broker.Broker}, 0, 0, 0, 0, errors.New("broken pipe"))
	if after := traffic.Brokers(); after[len(after)-1].WriteErrors != 1 {
		t.Errorf("a failed write: %+v", after)
	}
}

// totals are the connections to all brokers, and what is known about the one that has a number.
func totals(t *testing.T, traffic *Traffic) (sum, broker BrokerTraffic) {
	t.Helper()
	for _, b := range traffic.Brokers() {
		sum.Connects, sum.ConnectErrors, sum.Disconnects = sum.Connects+b.Connects, sum.ConnectErrors+b.ConnectErrors, sum.Disconnects+b.Disconnects
		switch {
		case b.Broker >= 0:
			broker = b
		case b.Broker != SeedBroker:
			t.Errorf("broker %d", b.Broker)
		}
	}
	return sum, broker
}

// TestTrafficAllocatesNothing: hooks are called for every request and batch.
func TestTrafficAllocatesNothing(t *testing.T) {
	traffic, m := &Traffic{}, kgo.BrokerMetadata{NodeID: 1001}
	if n := testing.AllocsPerRun(100, func() {
		traffic.OnBrokerRead(m, 1, 100, 0, 0, nil)
		traffic.OnFetchBatchRead(m, "t", 0, kgo.FetchBatchMetrics{NumRecords: 1})
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
