// Package txntest is what the tests of sinks that write Kafka share: a cluster in memory,
// and a topic as the suite of all sinks (package sinktest) takes it.
package txntest

import (
	"context"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"etl/internal/kafkaconn"
	"etl/internal/kafkatest"
	"etl/sink"
	"etl/sink/sinktest"
	"etl/stream"
)

// Topic is the one of a cluster in memory. It has three partitions.
const Topic = "out"

// Fake starts a cluster on a network in memory, and returns the way there.
func Fake(t testing.TB, opts ...kfake.Opt) kafkaconn.Config {
	t.Helper()
	net := new(kfake.VirtualNetwork)
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(3, Topic), kfake.ListenFn(net.Listen)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return kafkaconn.Config{SeedBrokers: c.ListenAddrs(), Dial: net.DialContext}
}

// Harness is a topic with a sink in front of it. The job is called like the topic, and ours
// tells the transactional ids of its sink.
func Harness(conn kafkaconn.Config, topic string, ours func(id string) bool, connect func(kafkaconn.Config, sinktest.Process) sink.Connector) *sinktest.Harness {
	plain := conn // the sink goes by the network of its process, the test by its own
	plain.Dial = nil
	h := &sinktest.Harness{
		Job:     topic,
		Connect: func(p sinktest.Process) sink.Connector { return connect(plain, p) },
		Read:    func(ctx context.Context) ([]sinktest.Row, error) { return visible(ctx, conn, topic) },
		InDoubt: func(ctx context.Context) ([]string, error) { return ongoing(ctx, conn, ours) },
		BadAtWrite: func(b *stream.Batch, r *stream.Record) {
			r.Value = b.Alloc(2 << 20) // above max.message.bytes
		},
	}
	h.World.Dial = conn.Dial
	return h
}

// visible is what committed readers see.
func visible(ctx context.Context, conn kafkaconn.Config, topic string) (rows []sinktest.Row, err error) {
	records, err := kafkatest.Visible(ctx, conn.NewClient, topic)
	for _, r := range records {
		n, _ := strconv.Atoi(string(r.Value))
		rows = append(rows, sinktest.Row{Key: string(r.Key), N: n, Partition: int(r.Partition)})
	}
	return rows, err
}

// ongoing lists the job's open transactions.
func ongoing(ctx context.Context, conn kafkaconn.Config, ours func(id string) bool) ([]string, error) {
	cl, err := conn.NewClient()
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	return kafkatest.Ongoing(ctx, cl, ours)
}
