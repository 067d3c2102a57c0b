package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkaconn"
	"etl/internal/kafkatest"
	"etl/source"
	"etl/stream"
)

// broker is a cluster that a test works on: the in-process one or a real one.
type broker struct {
	t     *testing.T
	seeds []string
	fake  *kfake.Cluster // nil on a real broker
	adm   *kadm.Client
	dial  stream.Dialer // nil for the system's network
	ends  []func()      // in virtual time, what has to end before the bubble does
}

// later ends something with the test.
func (b *broker) later(f func()) {
	if b.dial != nil {
		b.ends = append([]func(){f}, b.ends...)
	} else {
		b.t.Cleanup(f)
	}
}

// onBoth runs a test on the in-process broker and on Apache Kafka.
func onBoth(t *testing.T, f func(b *broker)) {
	t.Run("kfake", func(t *testing.T) { f(newFake(t)) })
	t.Run("kafka", func(t *testing.T) { f(newReal(t, kafkatest.Shared(t))) })
}

func newFake(t *testing.T, opts ...kfake.Opt) *broker {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	b := &broker{t: t, seeds: c.ListenAddrs(), fake: c}
	b.adm = kadm.NewClient(b.client())
	return b
}

func newReal(t *testing.T, k *kafkatest.Broker) *broker {
	b := &broker{t: t, seeds: k.Seeds()}
	b.adm = kadm.NewClient(b.client())
	return b
}

func (b *broker) client(opts ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	if b.dial != nil {
		opts = append(opts, kgo.Dialer(b.dial))
	}
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(50 * time.Millisecond)}, opts...)...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.later(cl.Close)
	return cl
}

var names atomic.Int64

// topic makes a topic with a name of its own.
func (b *broker) topic(partitions int32, configs ...string) string {
	b.t.Helper()
	name := fmt.Sprintf("t%d-%d", names.Add(1), rand.Uint32())
	b.create(name, partitions, configs...)
	return name
}

func (b *broker) create(name string, partitions int32, configs ...string) {
	b.t.Helper()
	settings := map[string]*string{}
	for _, c := range configs {
		k, v, _ := strings.Cut(c, "=")
		settings[k] = &v
	}
	ctx := b.ctx()
	b.unfenced("make "+name, func() error {
		_, err := b.adm.CreateTopic(ctx, partitions, 1, settings, name)
		return err
	})
	b.eventually("leaders of "+name, func() bool {
		ends, err := b.adm.ListEndOffsets(ctx, name)
		return err == nil && ends.Error() == nil && len(ends[name]) == int(partitions)
	})
}

// unfenced asks for replicas until there is a broker to take them: one whose machine was
// too busy for its heartbeats is not there until the next of them.
func (b *broker) unfenced(what string, f func() error) {
	b.t.Helper()
	b.eventually(what, func() bool {
		err := f()
		if err != nil && !errors.Is(err, kerr.InvalidReplicationFactor) {
			b.t.Fatal(err)
		}
		return err == nil
	})
}

// patience bounds everything that a test waits for. The machine may be busy.
const patience = 2 * time.Minute

func (b *broker) ctx() context.Context {
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	b.later(cancel)
	return ctx
}

func (b *broker) eventually(what string, f func() bool) {
	b.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !f(); <-tick.C {
		if time.Now().After(end) {
			b.t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// produce writes values to a partition, without a transaction.
func (b *broker) produce(topic string, partition int32, values ...string) {
	b.t.Helper()
	b.send(b.client(), topic, partition, values...)
}

func (b *broker) send(cl *kgo.Client, topic string, partition int32, values ...string) {
	b.t.Helper()
	for _, v := range values { // one batch each: more to go wrong
		r := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(v)}
		if err := cl.ProduceSync(b.ctx(), r).FirstErr(); err != nil {
			b.t.Fatal(err)
		}
	}
}

// txn writes values to the partitions in one transaction and ends it.
func (b *broker) txn(cl *kgo.Client, commit bool, topic string, partitions int32, values ...string) {
	b.t.Helper()
	if err := cl.BeginTransaction(); err != nil {
		b.t.Fatal(err)
	}
	for i, v := range values {
		b.send(cl, topic, int32(i)%partitions, v)
	}
	if err := cl.EndTransaction(b.ctx(), kgo.TransactionEndTry(commit)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *broker) producer(id string) *kgo.Client {
	b.t.Helper()
	return b.client(kgo.TransactionalID(fmt.Sprintf("%s-%d", id, rand.Uint64())), kgo.TransactionTimeout(time.Minute))
}

// stable waits until nothing of a topic is undecided, and returns where it ends.
func (b *broker) stable(topic string) map[int32]int64 {
	b.t.Helper()
	out := map[int32]int64{}
	b.eventually("all of "+topic+" decided", func() bool {
		end, err1 := b.adm.ListEndOffsets(b.ctx(), topic)
		lso, err2 := b.adm.ListCommittedOffsets(b.ctx(), topic)
		decided := err1 == nil && err2 == nil && len(end[topic]) > 0
		for p, o := range end[topic] {
			decided = decided && o.Err == nil && lso[topic][p].Offset == o.Offset
			out[p] = o.Offset
		}
		return decided
	})
	return out
}

// env is the world a source is opened in.
func (b *broker) env() source.Env {
	return source.Env{
		Env: stream.Env{World: stream.SystemWorld(slog.New(slog.DiscardHandler)), Job: "job", UID: "in", Parallelism: 1},
		// A schema that tests recognise.
		Schema: &stream.Schema{Format: stream.Raw},
	}
}

func (b *broker) config(topic string, change ...func(*Config)) Config {
	c := Config{Cluster: kafkaconn.Config{SeedBrokers: b.seeds, Dial: b.dial}, Topics: []string{topic}}
	for _, f := range change {
		f(&c)
	}
	c = c.WithDefaults()
	for _, err := range c.Problems() {
		b.t.Fatal(err)
	}
	return c
}

// enumerator returns an open one.
func (b *broker) enumerator(c Config) *Enumerator {
	b.t.Helper()
	e := NewEnumerator(c)
	if err := e.Open(b.ctx(), b.env().Env); err != nil {
		b.t.Fatal(err)
	}
	b.later(func() { _ = e.Close() })
	return e
}

// discover is the first call of a new enumerator: a start of the job.
func (b *broker) discover(c Config, known []stream.Split) ([]stream.Split, error) {
	b.t.Helper()
	return b.enumerator(c).Discover(b.ctx(), known)
}

func (b *broker) splits(c Config, known []stream.Split) []stream.Split {
	b.t.Helper()
	add, err := b.discover(c, known)
	if err != nil {
		b.t.Fatal(err)
	}
	return append(slices.Clone(known), add...)
}

// reader returns an open one; it is closed with the test.
func (b *broker) reader(c Config, splits []stream.Split) *Reader {
	b.t.Helper()
	r := NewReader(c)
	if err := r.Open(b.ctx(), b.env(), splits); err != nil {
		b.t.Fatal(err)
	}
	b.later(func() { _ = r.Close() })
	return r
}

// got is what a test looks at of a record.
type got struct {
	topic     string
	partition int32
	offset    int64
	value     string
}

// read polls until f says that it is enough, or the source ends.
func (b *broker) read(r *Reader, enough func([]got) bool) (out []got, ended bool) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	for !enough(out) {
		el, err := r.Poll(ctx)
		if err != nil {
			b.t.Fatalf("after %d records: %v", len(out), err)
		}
		switch el := el.(type) {
		case nil:
		case stream.EndOfInput:
			return out, true
		case *stream.Batch:
			out = append(out, b.look(el)...)
			el.Release()
		}
	}
	return out, false
}

// look checks what holds for every batch, and returns its records.
func (b *broker) look(batch *stream.Batch) (out []got) {
	b.t.Helper()
	origin := batch.Origin().(*kafkaconn.Fetched)
	if len(origin.Records) != len(batch.Records) || len(batch.Records) == 0 || batch.Schema == nil {
		b.t.Fatalf("a batch of %d records from %d, schema %v", len(batch.Records), len(origin.Records), batch.Schema)
	}
	for i := range batch.Records {
		r := &batch.Records[i]
		if r.Pos != int32(i) || origin.Records[i].Offset != r.Offset || r.Partition != batch.Records[0].Partition || r.Topic != batch.Records[0].Topic {
			b.t.Fatalf("record %d of a batch: pos %d, offset %d, %s/%d", i, r.Pos, r.Offset, r.Topic, r.Partition)
		}
		out = append(out, got{r.Topic, r.Partition, r.Offset, string(r.Value)})
	}
	return out
}

func all([]got) bool { return false }

func atLeast(n int) func([]got) bool { return func(g []got) bool { return len(g) >= n } }

// drain reads a bounded source to its end.
func (b *broker) drain(c Config, splits []stream.Split) ([]got, []stream.Split) {
	b.t.Helper()
	r := b.reader(c, splits)
	out, ended := b.read(r, all)
	if !ended {
		b.t.Fatal("a bounded source did not end")
	}
	return out, r.Splits()
}

// values returns the values of each partition in the order they were read, and
// fails when offsets do not increase.
func values(t *testing.T, gots []got) map[int32][]string {
	t.Helper()
	out, last := map[int32][]string{}, map[int32]int64{}
	for _, g := range gots {
		if before, ok := last[g.partition]; ok && g.offset <= before {
			t.Errorf("%s/%d: offset %d after %d", g.topic, g.partition, g.offset, before)
		}
		last[g.partition] = g.offset
		out[g.partition] = append(out[g.partition], g.value)
	}
	return out
}

func until(w Where) func(*Config)  { return func(c *Config) { c.End = w } }
func from(w Where) func(*Config)   { return func(c *Config) { c.Start = w } }
func batches(n int) func(*Config)  { return func(c *Config) { c.BatchRecords = n } }
func group(g string) func(*Config) { return func(c *Config) { c.Group = g } }
func ends(o Offsets) func(*Config) { return func(c *Config) { c.End, c.EndOffsets = Exact, o } }
func starts(o Offsets) func(*Config) {
	return func(c *Config) { c.Start, c.StartOffsets = Exact, o }
}
