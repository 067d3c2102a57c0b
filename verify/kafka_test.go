package verify

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"etl/internal/kafkaconn"
	"etl/internal/kafkatest"
	"etl/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(kafkatest.Runner(pgtest.Runner(m))) }

// eachBroker runs a test with some topics of three partitions, on the in-process
// broker and on a real one.
func eachBroker(t *testing.T, topics int, f func(t *testing.T, conn kafkaconn.Config, topics []string)) {
	t.Run("kfake", func(t *testing.T) {
		names := []string{"a", "b"}[:topics]
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, names...))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		f(t, kafkaconn.Config{SeedBrokers: c.ListenAddrs()}, names)
	})
	t.Run("kafka", func(t *testing.T) {
		b := kafkatest.Shared(t)
		var names []string
		for range topics {
			names = append(names, b.Topic(t, 3))
		}
		f(t, kafkaconn.Config{SeedBrokers: b.Seeds()}, names)
	})
}

func client(t *testing.T, conn kafkaconn.Config, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	// A transaction stays open for as long as a busy machine takes, which is longer than the 40 s of kgo.
	cl, err := conn.NewClient(append([]kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionTimeout(10 * time.Minute)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// produce writes rows to a partition.
func produce(t *testing.T, cl *kgo.Client, topic string, p int32, rows ...string) {
	t.Helper()
	for _, r := range rows {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: p, Key: []byte("k"), Value: []byte(r)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// transact writes rows in a transaction and ends it.
func transact(t *testing.T, cl *kgo.Client, commit bool, topic string, p int32, rows ...string) {
	t.Helper()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, cl, topic, p, rows...)
	end := kgo.TryAbort
	if commit {
		end = kgo.TryCommit
	}
	if err := cl.EndTransaction(t.Context(), end); err != nil {
		t.Fatal(err)
	}
}

func values(t *testing.T, conn kafkaconn.Config, topic string) (out []string, states []PartitionState) {
	t.Helper()
	states, err := ReadTopic(t.Context(), conn, topic, func(r *kgo.Record) error {
		out = append(out, fmt.Sprintf("%d:%s", r.Partition, r.Value))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out, states
}

// What a reader sees is decided from the control records: transactions that lie in
// one another, aborted ones, an open one that hides what was committed behind it.
func TestTransactionsAreFollowed(t *testing.T) { eachBroker(t, 1, transactionsAreFollowed) }

func transactionsAreFollowed(t *testing.T, conn kafkaconn.Config, topics []string) {
	x := topics[0]
	plain := client(t, conn)
	a, b := client(t, conn, kgo.TransactionalID(x+"-a")), client(t, conn, kgo.TransactionalID(x+"-b"))
	produce(t, plain, x, 0, "p1")
	transact(t, a, true, x, 0, "a1", "a2")
	transact(t, b, false, x, 0, "b1")
	transact(t, b, true, x, 1, "b2")
	if err := a.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, a, x, 0, "a3")
	transact(t, b, true, x, 0, "b3") // inside a's
	produce(t, plain, x, 0, "p2")

	settled(t, conn, x, 1)
	got, states := values(t, conn, x)
	if want := "[0:p1 0:a1 0:a2 1:b2]"; fmt.Sprint(got) != want {
		t.Errorf("visible %v, want %s", got, want)
	}
	if s := states[0]; s.Visible != 3 || s.Aborted != 1 || s.Hidden != 3 || s.Holes != 0 || s.Stable >= s.End {
		t.Errorf("%+v", s)
	}
	open, err := Hanging(t.Context(), conn, x)
	if err != nil || len(open) != 1 || open[0].Partition != 0 || len(open[0].Producers) != 1 {
		t.Errorf("open: %v, %v", open, err)
	}
	if err := a.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	settled(t, conn, x, 0)
	got, _ = values(t, conn, x)
	if want := "[0:p1 0:a1 0:a2 0:a3 0:b3 0:p2 1:b2]"; fmt.Sprint(got) != want {
		t.Errorf("visible %v, want %s", got, want)
	}
	if open, err := Hanging(t.Context(), conn, x); err != nil || len(open) != 0 {
		t.Errorf("open: %v, %v", open, err)
	}
}

func copySpec(conn kafkaconn.Config, in, out string) Spec {
	return Spec{Name: "copy", Sources: []Source{{Name: "src", Conn: conn, Topics: []string{in}, Decode: "text"}},
		Sinks: []Sink{{Name: "out", Inputs: []string{"src"}, Conn: conn, Topic: out}}}
}

// The whole recount on a broker: a copy by hand, first complete, then with an open
// transaction, then with a row too many.
func TestVerifyOnBroker(t *testing.T) { eachBroker(t, 2, verifyOnBroker) }

func verifyOnBroker(t *testing.T, conn kafkaconn.Config, topics []string) {
	in, out := client(t, conn), client(t, conn, kgo.TransactionalID(topics[1]+"-job"))
	ts := time.UnixMilli(1700000000000)
	var rows []*kgo.Record
	for i := range 50 {
		r := &kgo.Record{Topic: topics[0], Partition: int32(i % 3), Value: []byte(fmt.Sprint("v", i)), Timestamp: ts, Headers: []kgo.RecordHeader{{Key: "h", Value: nil}}}
		if i%2 == 0 {
			r.Key = []byte("k")
		}
		rows = append(rows, r)
	}
	if err := in.ProduceSync(t.Context(), rows...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	send := func(from, to int) {
		for _, r := range rows[from:to] {
			c := &kgo.Record{Topic: topics[1], Partition: r.Partition, Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: ts}
			if err := out.ProduceSync(t.Context(), c).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	begin := func() {
		if err := out.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
	}
	end := func() {
		if err := out.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		settled(t, conn, topics[1], 0)
	}
	check := func(o Options, ok bool, want Counts) *Result {
		t.Helper()
		r, err := Verify(t.Context(), copySpec(conn, topics[0], topics[1]), o)
		if err != nil {
			t.Fatal(err)
		}
		if r.OK != ok || r.Counts != want {
			t.Errorf("want ok %v, %+v:\n%s", ok, want, describe(r))
		}
		return r
	}
	begin()
	send(0, 30)
	end()
	check(Options{}, true, Counts{Behind: 20})
	check(Options{Finished: true}, false, Counts{Behind: 20})
	check(Options{Until: Offsets{topics[0]: {0: 10, 1: 10, 2: 10}}}, true, Counts{})
	begin()
	send(30, 50)
	check(Options{}, true, Counts{Behind: 20, Uncommitted: 20})
	end()
	r := check(Options{Finished: true}, true, Counts{})
	if r.RecordsIn != 50 || r.RecordsOut != 50 {
		t.Errorf("records %d and %d", r.RecordsIn, r.RecordsOut)
	}
	begin()
	send(7, 8)
	end()
	check(Options{}, false, Counts{Duplicated: 1, OutOfOrder: 0})
}

// A watcher sees what is committed, at once; and Compare finds a topic that is not
// what it saw.
func TestWatcher(t *testing.T) { eachBroker(t, 1, watched) }

func watched(t *testing.T, conn kafkaconn.Config, topics []string) {
	out := topics[0]
	w, err := Watch(t.Context(), conn, out)
	if err != nil {
		t.Fatal(err)
	}
	tx := client(t, conn, kgo.TransactionalID(out+"-a"))
	transact(t, tx, true, out, 0, "1", "2", "3")
	transact(t, tx, false, out, 0, "no")
	transact(t, tx, true, out, 2, "4")
	await(t, func() bool { return w.Rows() == 4 })
	w.Stop()
	if found, err := w.Compare(t.Context(), conn); err != nil || len(found) != 0 {
		t.Errorf("%v %v", found, err)
	}
	w.seen[0][1]++       // another row
	w.seen[0][99] = 5    // a row that is not there
	delete(w.seen[0], 0) // a row the watcher did not get
	found, err := w.Compare(t.Context(), conn)
	if err != nil || len(found) != 3 {
		t.Errorf("%v %v", found, err)
	}
}

// settled waits until the brokers have written all control records, which a real one
// does after it answered, and only so many transactions are open: one that ended may still
// be, behind one in the same partition that did not.
func settled(t *testing.T, conn kafkaconn.Config, topic string, open int) {
	t.Helper()
	await(t, func() bool {
		o, err := Hanging(t.Context(), conn, topic)
		n := 0
		for _, p := range o {
			n += max(1, len(p.Producers))
		}
		return err == nil && n == open
	})
}

func await(t *testing.T, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatal("it did not happen")
		case <-tick.C:
		}
	}
}
