package kafkatxn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
	"go.uber.org/goleak"

	"etl/internal/kafkaconn"
	"etl/internal/kafkatest"
	"etl/internal/testservice"
	"etl/stream"
)

var oldBroker testservice.Shared[*kafkatest.Server]

func TestMain(m *testing.M) { goleak.VerifyTestMain(kafkatest.Runner(oldBroker.Runner(m))) }

// patience bounds what a test waits for. The machine may be busy.
const patience = 2 * time.Minute

// lab is a broker with one output topic and one sink of one job on it.
type lab struct {
	t     testing.TB
	seeds []string
	topic string
	parts int
	tv    int16
	fake  *kfake.Cluster // nil on a real broker
	names Names
	world stream.World
	opts  func(*Options)
}

// eachBroker runs a test on everything that behaves differently.
func eachBroker(t *testing.T, f func(t *testing.T, l *lab)) {
	t.Run("kfake", func(t *testing.T) { f(t, fakeLab(t)) })
	t.Run("kfake-tv1", func(t *testing.T) { f(t, fakeLab(t, kfake.MaxVersions(kversion.V3_9_0()))) })
	t.Run("kafka", func(t *testing.T) { f(t, realLab(t, kafkatest.Shared(t))) })
	t.Run("kafka-tv1", func(t *testing.T) { f(t, realLab(t, version1(t))) })
}

// version1 is a real broker whose transactions are those of Kafka before 4.0.
func version1(t *testing.T) *kafkatest.Broker {
	t.Helper()
	return kafkatest.SharedAs(t, &oldBroker, kafkatest.Config{TransactionVersion: 1})
}

func fakeLab(t testing.TB, opts ...kfake.Opt) *lab {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(3, "out")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	l := newLab(t, c.ListenAddrs(), "out", 3)
	l.fake = c
	return l
}

func realLab(t testing.TB, b *kafkatest.Broker) *lab { return newLab(t, b.Seeds(), b.Topic(t, 3), 3) }

func newLab(t testing.TB, seeds []string, topic string, parts int) *lab {
	t.Helper()
	l := &lab{t: t, seeds: seeds, topic: topic, parts: parts, world: stream.SystemWorld(slog.New(slog.DiscardHandler))}
	l.names = Names{Job: "job " + topic, Sink: "sink.1", Lineage: lineage(1)}
	cl := l.plain()
	v, err := kafkaconn.TransactionVersion(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	l.tv = v
	return l
}

func lineage(n byte) stream.Lineage {
	var l stream.Lineage
	for i := range l {
		l[i] = n
	}
	return l
}

// open is a client such as another process would have.
func (l *lab) open() *Client {
	l.t.Helper()
	o := Options{Conn: kafkaconn.Config{SeedBrokers: l.seeds}, World: l.world, Names: l.names, Topics: []string{l.topic}, Timeout: time.Minute}
	if l.opts != nil {
		l.opts(&o)
	}
	c, err := Open(l.t.Context(), o)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(c.Close)
	return c
}

func (l *lab) plain(opts ...kgo.Opt) *kgo.Client {
	l.t.Helper()
	cl, err := (&kafkaconn.Config{SeedBrokers: l.seeds}).NewClient(opts...)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(cl.Close)
	return cl
}

// producer is a transactional client of one slot.
func (l *lab) producer(txid string, timeout time.Duration) *kgo.Client {
	l.t.Helper()
	cl := l.plain(kgo.TransactionalID(txid), kgo.TransactionTimeout(timeout), Caps(l.tv), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if _, _, err := cl.ProducerID(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
	if err := cl.BeginTransaction(); err != nil {
		l.t.Fatal(err)
	}
	return cl
}

// fill produces n rows over all partitions and waits for every promise.
func (l *lab) fill(cl *kgo.Client, n int) map[int32]int64 {
	l.t.Helper()
	var wg sync.WaitGroup
	last := map[int32]int64{}
	for i := range n {
		wg.Add(1)
		cl.Produce(l.t.Context(), &kgo.Record{Topic: l.topic, Partition: int32(i % l.parts), Value: fmt.Append(nil, i)}, func(r *kgo.Record, err error) {
			defer wg.Done()
			if err != nil {
				l.t.Errorf("produce: %v", err)
				return
			}
			last[r.Partition] = r.Offset
		})
	}
	wg.Wait()
	return last
}

// prepare leaves a transaction of n rows prepared for checkpoint id.
func (l *lab) prepare(subtask int, slot int, id stream.CheckpointID, n int) *Payload {
	l.t.Helper()
	return l.prepareFor(subtask, slot, id, n, 10*time.Minute) // it outlives the test, also where that is slow
}

func (l *lab) prepareFor(subtask, slot int, id stream.CheckpointID, n int, timeout time.Duration) *Payload {
	l.t.Helper()
	txid := l.names.TxID(subtask, id.Attempt(), slot)
	cl := l.producer(txid, timeout)
	start := l.world.Clock.Now()
	last := l.fill(cl, n)
	pid, epoch, err := cl.ProducerID(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	t := Txn{TxID: txid, PID: pid, Epoch: epoch, TV: l.tv}
	c := l.open()
	if err := c.Mark(l.t.Context(), t, subtask, id, "note"); err != nil {
		l.t.Fatal(err)
	}
	cl.Close() // never ends the transaction
	return l.payload(c, t, subtask, slot, start, timeout, last)
}

func (l *lab) payload(c *Client, t Txn, subtask, slot int, start time.Time, timeout time.Duration, last map[int32]int64) *Payload {
	l.t.Helper()
	info, err := c.topic(l.t.Context(), l.topic)
	if err != nil {
		l.t.Fatal(err)
	}
	w := Written{Topic: l.topic}
	for p := range int32(l.parts) {
		if o, ok := last[p]; ok {
			w.Partitions, w.Last = append(w.Partitions, p), append(w.Last, o)
		}
	}
	return &Payload{Txn: t, Slot: slot, Group: l.names.Group(subtask), Topic: l.topic, TopicID: info.ID,
		StartMillis: start.UnixMilli(), TimeoutMillis: timeout.Milliseconds(), Written: []Written{w}}
}

// drop deletes the topic, and returns when brokers do not know it any more.
func (l *lab) drop() {
	l.t.Helper()
	adm := kadm.NewClient(l.plain())
	if r, err := adm.DeleteTopics(l.t.Context(), l.topic); errors.Join(err, r.Error()) != nil {
		l.t.Fatal(err, r.Error())
	}
	l.eventually("the topic is gone", func() bool {
		known, err := adm.ListTopics(l.t.Context(), l.topic)
		return err == nil && errors.Is(known[l.topic].Err, kerr.UnknownTopicOrPartition)
	})
}

// remake deletes the topic and makes it anew.
func (l *lab) remake() {
	l.t.Helper()
	l.drop()
	adm := kadm.NewClient(l.plain())
	l.eventually("the topic can be made again", func() bool {
		r, err := adm.CreateTopic(l.t.Context(), int32(l.parts), 1, nil, l.topic)
		return err == nil && r.Err == nil
	})
	l.eventually("its partitions have leaders", func() bool {
		ends, err := adm.ListEndOffsets(l.t.Context(), l.topic)
		return err == nil && ends.Error() == nil && len(ends[l.topic]) == l.parts
	})
}

// visible counts what a read_committed reader sees up to the end.
func (l *lab) visible() int { return l.count(kgo.ReadCommitted()) }

// written counts what a reader sees that does not care.
func (l *lab) written() int { return l.count(kgo.ReadUncommitted()) }

func (l *lab) count(level kgo.IsolationLevel) int {
	l.t.Helper()
	adm := kadm.NewClient(l.plain())
	list := adm.ListCommittedOffsets
	if level == kgo.ReadUncommitted() {
		list = adm.ListEndOffsets
	}
	ends, err := list(l.t.Context(), l.topic)
	if err != nil {
		l.t.Fatal(err)
	}
	cl := l.plain(kgo.ConsumeTopics(l.topic), kgo.FetchIsolationLevel(level), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(50*time.Millisecond), kgo.KeepControlRecords())
	at, rows := map[int32]int64{}, 0
	done := func() bool {
		ok := true
		ends.Each(func(o kadm.ListedOffset) { ok = ok && at[o.Partition] >= o.Offset })
		return ok
	}
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	for !done() && ctx.Err() == nil {
		fs := cl.PollFetches(ctx)
		fs.EachPartition(func(p kgo.FetchTopicPartition) {
			for _, r := range p.Records {
				at[r.Partition] = r.Offset + 1
				if !r.Attrs.IsControl() {
					rows++
				}
			}
		})
	}
	if !done() {
		l.t.Errorf("the reader got to %v of %v", at, ends)
	}
	return rows
}

// eventually waits for something that brokers do in their own time.
func (l *lab) eventually(what string, f func() bool) {
	l.t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		if time.Now().After(deadline) {
			l.t.Fatalf("not within %v: %s", patience, what)
		}
		<-tick.C
	}
}

func id(attempt, n int) stream.CheckpointID {
	return stream.NewCheckpointID(stream.Attempt(attempt), uint32(n))
}

func sharedBroker(t testing.TB) *kafkatest.Broker { return kafkatest.Shared(t) }

func tv1() kfake.Opt { return kfake.MaxVersions(kversion.V3_9_0()) }

func writeFile(t testing.TB, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
