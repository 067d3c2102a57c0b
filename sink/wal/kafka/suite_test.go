package kafka

import (
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"
	"go.uber.org/goleak"

	"etl/internal/kafkaconn"
	"etl/internal/kafkatest"
	"etl/sink"
	"etl/sink/kafkatxn"
	"etl/sink/kafkatxn/txntest"
	"etl/sink/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(kafkatest.Runner(m)) }

// The conformance suite in virtual time, on kfake in both transaction versions.
func TestConformance(t *testing.T) {
	for name, c := range map[string]struct {
		opts         []kfake.Opt
		places, runs int
	}{
		"tv2": {places: 8, runs: 8},
		"tv1": {places: 4, runs: 4, opts: []kfake.Opt{kfake.MaxVersions(kversion.V3_9_0())}},
	} {
		t.Run(name, func(t *testing.T) {
			sinktest.Run(t, sinktest.Suite{Virtual: true, Places: c.places, Runs: c.runs, Steps: 40,
				New: func(t testing.TB) *sinktest.Harness { return fakeOutside(t, c.opts) }})
		})
	}
}

// The same on real brokers; there fewer places and histories.
func TestConformanceOnKafka(t *testing.T) {
	b := kafkatest.Shared(t)
	runs, places := 2, 1
	if os.Getenv("ETL_SLOW") != "" {
		runs, places = 3, 2
	}
	sinktest.Run(t, sinktest.Suite{Patience: time.Minute, Places: places, Runs: runs, Steps: 25, New: func(t testing.TB) *sinktest.Harness {
		return outside(t, kafkaconn.Config{SeedBrokers: b.Seeds()}, b.Topic(t, 3))
	}})
}

// A broker that is killed with kill -9 keeps what is delivered.
func TestConformanceOfKilledBroker(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts a broker three times")
	}
	b := kafkatest.Start(t, kafkatest.Config{})
	sinktest.Run(t, sinktest.Suite{Patience: 2 * time.Minute, Only: "the outside dies", New: func(t testing.TB) *sinktest.Harness {
		h := outside(t, kafkaconn.Config{SeedBrokers: b.Seeds()}, b.Topic(t, 3))
		h.Kill, h.Restart = b.Server.Kill, b.Server.Restart
		return h
	}})
}

// fakeOutside is a cluster in memory.
func fakeOutside(t testing.TB, opts []kfake.Opt) *sinktest.Harness {
	return outside(t, txntest.Fake(t, opts...), txntest.Topic)
}

// outside is a topic, and the sink in front of it.
func outside(t testing.TB, conn kafkaconn.Config, topic string) *sinktest.Harness {
	names, dir := kafkatxn.Names{Job: topic, Sink: "out"}, t.TempDir()
	ours := func(id string) bool { _, _, ok := names.ParseShortID(id); return ok }
	return txntest.Harness(conn, topic, ours, func(conn kafkaconn.Config, p sinktest.Process) sink.Connector {
		return New(Config{Conn: conn, Topics: []string{topic}, Parallelism: p.Parallelism, SpillDir: dir})
	})
}
