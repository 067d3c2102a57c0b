package kafka

import (
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"

	"etl/checkpoint"
	"etl/internal/kafkaconn"
	"etl/internal/kafkatest"
	"etl/sink"
	"etl/sink/kafkatxn/txntest"
	"etl/sink/sinktest"
	"etl/stream"
)

// The conformance suite in virtual time, on kfake in both transaction versions, with
// fresh producers and with kept ones.
func TestConformance(t *testing.T) {
	for name, c := range map[string]struct {
		opts         []kfake.Opt
		policy       checkpoint.Policy
		places, runs int
	}{
		"tv2":      {places: 12, runs: 10},
		"tv1":      {places: 5, runs: 5, opts: []kfake.Opt{kfake.MaxVersions(kversion.V3_9_0())}},
		"tv2 kept": {places: 5, runs: 5, policy: checkpoint.Policy{Interval: 200 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			sinktest.Run(t, sinktest.Suite{Virtual: true, Policy: c.policy, Places: c.places, Runs: c.runs, Steps: 40,
				New: func(t testing.TB) *sinktest.Harness { return fakeOutside(t, c.opts) }})
		})
	}
}

// The same on a real broker; there fewer places and histories.
func TestConformanceOnKafka(t *testing.T) {
	runs, places := 2, 1
	if os.Getenv("ETL_SLOW") != "" {
		runs, places = 3, 2
	}
	onBroker(t, kafkatest.Shared(t), runs, places)
}

// Transaction version 1, on a broker that has no other.
func TestConformanceOnOldKafka(t *testing.T) {
	if os.Getenv("ETL_SLOW") == "" {
		t.Skip("transaction version 1 on kfake only; on a broker with ETL_SLOW=1, as in make torture")
	}
	onBroker(t, kafkatest.SharedAs(t, &oldBroker, kafkatest.Config{TransactionVersion: 1}), 2, 1)
}

func onBroker(t *testing.T, b *kafkatest.Broker, runs, places int) {
	sinktest.Run(t, sinktest.Suite{Patience: time.Minute, Places: places, Runs: runs, Steps: 25, New: func(t testing.TB) *sinktest.Harness {
		return outside(kafkaconn.Config{SeedBrokers: b.Seeds()}, b.Topic(t, 3))
	}})
}

// A broker that is killed with kill -9 keeps what is prepared.
func TestConformanceOfKilledBroker(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts a broker three times")
	}
	b := kafkatest.Start(t, kafkatest.Config{})
	sinktest.Run(t, sinktest.Suite{Patience: 2 * time.Minute, Only: "the outside dies", New: func(t testing.TB) *sinktest.Harness {
		h := outside(kafkaconn.Config{SeedBrokers: b.Seeds()}, b.Topic(t, 3))
		h.Kill, h.Restart = b.Server.Kill, b.Server.Restart
		return h
	}})
}

// fakeOutside is a cluster in memory.
func fakeOutside(t testing.TB, opts []kfake.Opt) *sinktest.Harness {
	h := outside(txntest.Fake(t, opts...), txntest.Topic)
	h.Advance = func(d time.Duration) { _ = stream.SystemClock{}.Sleep(t.Context(), d) }
	return h
}

// outside is a topic, and the sink in front of it.
func outside(conn kafkaconn.Config, topic string) *sinktest.Harness {
	names := new(Config).names(topic, "out", stream.Lineage{})
	ours := func(id string) bool { _, ok := names.ParseTxID(id); return ok }
	return txntest.Harness(conn, topic, ours, func(conn kafkaconn.Config, p sinktest.Process) sink.Connector {
		return New(Config{Conn: conn, Topics: []string{topic}, Policy: p.Policy, Parallelism: p.Parallelism, Linger: NoLinger,
			TransactionTimeout: 5 * time.Minute})
	})
}
