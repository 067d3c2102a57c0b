package kafka

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"

	"etl/checkpoint"
	"etl/internal/kafkaconn"
	"etl/internal/kafkatest"
	"etl/sink"
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

// The same on real brokers; there fewer places and histories.
func TestConformanceOnKafka(t *testing.T) {
	t.Run("tv2", func(t *testing.T) { onBroker(t, kafkatest.Shared(t)) })
	t.Run("tv1", func(t *testing.T) {
		if testing.Short() {
			t.Skip("-short: transaction version 1 on kfake only")
		}
		onBroker(t, kafkatest.SharedAs(t, &oldBroker, kafkatest.Config{TransactionVersion: 1}))
	})
}

func onBroker(t *testing.T, b *kafkatest.Broker) {
	runs, places := 2, 1
	if os.Getenv("ETL_SLOW") != "" {
		runs, places = 3, 2
	}
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

// fakeOutside is a kfake cluster on a network in memory.
func fakeOutside(t testing.TB, opts []kfake.Opt) *sinktest.Harness {
	net := new(kfake.VirtualNetwork)
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(3, "out"), kfake.ListenFn(net.Listen)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	h := outside(kafkaconn.Config{SeedBrokers: c.ListenAddrs(), Dial: net.DialContext}, "out")
	h.World.Dial = net.DialContext
	h.Advance = func(d time.Duration) { _ = stream.SystemClock{}.Sleep(t.Context(), d) }
	return h
}

// outside is a topic, and the sink in front of it.
func outside(conn kafkaconn.Config, topic string) *sinktest.Harness {
	reach := conn // the test's own way to the brokers
	conn.Dial = nil
	return &sinktest.Harness{
		Job: topic,
		Connect: func(p sinktest.Process) sink.Connector {
			return New(Config{Conn: conn, Topics: []string{topic}, Policy: p.Policy, Parallelism: p.Parallelism, Linger: NoLinger,
				TransactionTimeout: 5 * time.Minute})
		},
		Read:    func(ctx context.Context) ([]sinktest.Row, error) { return visibleRows(ctx, reach, topic) },
		InDoubt: func(ctx context.Context) ([]string, error) { return ongoing(ctx, reach, topic) },
		BadAtWrite: func(b *stream.Batch, r *stream.Record) {
			r.Value = b.Alloc(2 << 20) // above max.message.bytes
		},
	}
}

// visibleRows are what committed readers see.
func visibleRows(ctx context.Context, conn kafkaconn.Config, topic string) (rows []sinktest.Row, err error) {
	records, err := kafkatest.Visible(ctx, conn.NewClient, topic)
	for _, r := range records {
		n, _ := strconv.Atoi(string(r.Value))
		rows = append(rows, sinktest.Row{Key: string(r.Key), N: n, Partition: int(r.Partition)})
	}
	return rows, err
}

// ongoing lists the open transactions whose id has the job's name.
func ongoing(ctx context.Context, conn kafkaconn.Config, job string) ([]string, error) {
	cl, err := conn.NewClient()
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	names := new(Config).names(job, "out", stream.Lineage{})
	return kafkatest.Ongoing(ctx, cl, func(id string) bool { _, ok := names.ParseTxID(id); return ok })
}
