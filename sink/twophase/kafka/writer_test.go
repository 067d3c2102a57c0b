package kafka

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"etl/checkpoint"
	"etl/internal/kafkaconn"
	"etl/sink"
	"etl/stream"
)

// Any record that was not written ends the attempt; nothing is prepared.
func TestFailedPromiseEndsTheAttempt(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.InvalidProducerEpoch, kerr.OutOfOrderSequenceNumber, kerr.InvalidRecord, kerr.PolicyViolation, kerr.InvalidTxnState} {
		t.Run(code.Message, func(t *testing.T) {
			j := one(t, nil)
			j.start()
			j.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: code})
			err := j.untilItFails()
			if stream.ClassOf(err) != stream.Restart || stream.CodeOf(err) != "kafka.produce_failed" || !errors.Is(err, code) {
				t.Errorf("finish: %v", err)
			}
			if len(j.open) != 0 {
				t.Error("something was prepared")
			}
			if err := j.tryWrite(10); !errors.Is(err, code) {
				t.Errorf("the next row was taken: %v", err)
			}
		})
	}
}

// Nor is another row taken when it is the barrier that finds out.
func TestFailedEpochIsTheLast(t *testing.T) {
	j := one(t, nil)
	j.start()
	j.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.InvalidRecord}) // the first only
	_ = j.tryWrite(10)                                                                 // which may be told already
	<-j.writers[0].cur.failed
	for range 2 {
		if _, err := j.writers[0].PrepareCommit(t.Context(), stream.NewCheckpointID(1, 1), &j.rejects); !errors.Is(err, kerr.InvalidRecord) {
			t.Errorf("prepare: %v", err)
		}
		if err := j.tryWrite(10); !errors.Is(err, kerr.InvalidRecord) {
			t.Errorf("the next row was taken: %v", err)
		}
	}
}

// A right that is missing is named, and no other attempt is made.
func TestRefusedPromiseEndsTheJob(t *testing.T) {
	for code, right := range map[*kerr.Error]string{kerr.TopicAuthorizationFailed: "WRITE on topic out", kerr.TransactionalIDAuthorizationFailed: "WRITE on transactional id etl."} {
		j := one(t, nil)
		j.start()
		j.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: code})
		err := j.untilItFails()
		if stream.ClassOf(err) != stream.Environment || stream.CodeOf(err) != "kafka.acl" || !strings.Contains(err.Error(), right) {
			t.Errorf("%s: %v", code.Message, err)
		}
	}
}

// untilItFails writes and prepares. A promise may fail before any of the steps returns.
func (j *job) untilItFails() error {
	if err := j.tryWrite(10); err != nil {
		return err
	}
	p, err := j.writers[0].PrepareCommit(j.t.Context(), stream.NewCheckpointID(1, 1), &j.rejects)
	if err != nil {
		return err
	}
	return j.tryFinish([]sink.Pending{p})
}

// kgo initialises its id again in the middle of a transaction when it thinks that safe;
// the rows before are gone then. An acknowledgement under another epoch says so.
func TestAcknowledgementOfAnotherEpochEndsTheAttempt(t *testing.T) {
	p := &producer{slot: &slot{}}
	p.txn.PID, p.txn.Epoch = 7, 3
	for name, r := range map[string]*kgo.Record{
		"epoch":    {Topic: "out", ProducerID: 7, ProducerEpoch: 4},
		"producer": {Topic: "out", ProducerID: 8, ProducerEpoch: 3},
	} {
		e := newEpoch(t.Context(), p, 1<<20, nil, time.Time{})
		e.rows = 2
		e.acknowledge(&kgo.Record{Topic: "out", ProducerID: 7, ProducerEpoch: 3}, nil)
		e.acknowledge(r, nil)
		e.seal()
		if err := e.awaitSettled(t.Context()); stream.ClassOf(err) != stream.Restart {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Rows nobody could take are rejected one by one, by name, and the rest goes on.
func TestRejects(t *testing.T) {
	j := one(t, func(c *Config) {
		c.Encode = func(r *stream.Record, _ *stream.Batch, row *Row) error {
			switch r.Offset {
			case 1:
				return errors.New("not an order")
			case 2:
				row.Value = make([]byte, 2<<20)
			case 3:
				row.Topic = "elsewhere"
			case 4:
				row.Partition = 2
			}
			return nil
		}
	})
	j.start()
	b := stream.NewBatch(nil)
	for i := range 6 {
		b.Append(stream.Record{Topic: "in", Partition: 4, Offset: int64(i), Key: []byte("k"), Value: fmt.Append(nil, i), Pos: -1})
	}
	j.must(j.writers[0].Write(t.Context(), b, &j.rejects))
	j.checkpoint()
	if len(j.rejects.errs) != 3 {
		t.Fatalf("%v", j.rejects.errs)
	}
	for i, want := range []string{"not an order", "in/4@2", "in/4@3"} {
		if err := j.rejects.errs[i]; !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if stream.CodeOf(j.rejects.errs[1]) != "kafka.record_too_large" || !errors.Is(j.rejects.errs[1], kerr.MessageTooLarge) || stream.CodeOf(j.rejects.errs[2]) != "kafka.topic_not_declared" {
		t.Errorf("%v", j.rejects.errs)
	}
	rows := j.read()
	if len(rows) != 3 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, r := range rows {
		if string(r.Value) == "4" && r.Partition != 2 {
			t.Errorf("an explicit partition was not kept: %d", r.Partition)
		}
	}
}

// An epoch whose every row was rejected has begun nothing; its producer serves the next.
func TestEpochOfRejectsOnly(t *testing.T) {
	bad := true
	j := one(t, func(c *Config) {
		c.Encode = func(*stream.Record, *stream.Batch, *Row) error {
			if bad {
				return errors.New("no")
			}
			return nil
		}
	})
	j.start()
	j.at = 0
	j.write(3)
	id, ps := j.prepare()
	j.finish(ps)
	if len(j.open) != 0 || len(j.rejects.errs) != 3 || j.writers[0].spare == nil {
		t.Errorf("%d committables, %d rejects", len(j.open), len(j.rejects.errs))
	}
	j.publish(id)
	j.resolve(id, true)
	bad, j.at = false, 0
	j.write(3)
	j.checkpoint()
	j.wantExactly(3)
}

// Every transaction has its own slot until it is resolved, and a few slots serve for ever.
func TestSlotsAreFew(t *testing.T) {
	eachBroker(t, func(t *testing.T, j *job) {
		j.start()
		for range 30 {
			j.write(4)
			j.checkpoint()
		}
		for _, w := range j.writers {
			if n := len(w.slots.all); n > 3 {
				t.Errorf("%d slots for checkpoints that never overlap", n)
			}
		}
		j.wantExactly(120)
	})
}

// When every slot is prepared and unresolved, Write waits, and a resolution frees it.
func TestWriteWaitsForUnresolvedCommits(t *testing.T) {
	j := one(t, func(c *Config) { c.Policy.TolerableFailures = checkpoint.NoFailures })
	j.start()
	limit := j.writers[0].cfg.Slots()
	var first stream.CheckpointID
	for i := range limit {
		id := j.publishes(1)
		if i == 0 {
			first = id
		}
	}
	wrote := make(chan error, 1)
	go func() { wrote <- j.tryWrite(1) }()
	select {
	case err := <-wrote:
		t.Fatalf("a slot too many: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	j.resolve(first, false)
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	id, ps := j.prepare()
	j.finish(ps)
	j.publish(id)
	j.resolve(id, true)
	j.wantExactly(limit + 1)
}

// Below a second producers are used again, and every transaction is still one of its own.
func TestProducersAreKept(t *testing.T) {
	eachBroker(t, func(t *testing.T, j *job) {
		j.cfg.Policy.Interval = 100 * time.Millisecond
		j.start()
		clients := map[*kgo.Client]bool{}
		for range 12 {
			j.write(8)
			for _, w := range j.writers {
				clients[w.cur.p.cl] = true
			}
			j.checkpoint()
		}
		kept := len(clients) < 12
		if want := j.writers[0].raw.TV >= 2; kept != want {
			t.Errorf("%d clients for 24 transactions on transaction version %d", len(clients), j.writers[0].raw.TV)
		}
		j.crash()
		j.start()
		j.write(4)
		j.checkpoint()
		j.wantExactly(100)
	})
}

// A transactional id that lay unused for half of what the broker remembers it is
// initialised again before a row relies on it.
func TestReadyProducerIsRenewed(t *testing.T) {
	clock := &skewed{Clock: stream.SystemClock{}}
	j := one(t, nil, kfake.BrokerConfigs(map[string]string{"transactional.id.expiration.ms": "3600000"}))
	j.world.Clock = clock
	j.start()
	f := j.writers[0].factory
	old, err := f.take(t.Context())
	j.must(err)
	clock.by.Store(int64(31 * time.Minute))
	seen := make(chan struct{})
	go func() { // old is ready since then; so may be the one that was made meanwhile
		f.ready <- old
		close(seen)
	}()
	for waiting := true; waiting; {
		p, err := f.take(t.Context())
		j.must(err)
		if age := clock.Now().Sub(p.ready); age > 30*time.Minute {
			t.Fatalf("slot %d is relied on %s after it was initialised", p.slot.n, age)
		}
		f.drop(p.cl)
		f.slots.giveBack(p.slot)
		select {
		case <-seen:
			waiting = false
		default:
		}
	}
	f.mu.Lock()
	kept := f.live[old.cl]
	f.mu.Unlock()
	if kept {
		t.Error("the client of the old one is still open")
	}
	for range 3 {
		j.write(2)
		j.checkpoint()
	}
	j.wantExactly(6)
}

// skewed is a clock that was moved.
type skewed struct {
	stream.Clock
	by atomic.Int64
}

func (s *skewed) Now() time.Time { return s.Clock.Now().Add(time.Duration(s.by.Load())) }

// In the modes without transactions rows are visible at once, and flushed at the barrier.
func TestAtLeastOnce(t *testing.T) {
	eachBroker(t, func(t *testing.T, j *job) {
		j.cfg.Policy.Mode = checkpoint.AtLeastOnce
		j.start()
		for range 3 {
			j.write(30)
			id, ps := j.prepare()
			j.write(10)
			j.finish(ps)
			if len(j.open) != 0 {
				t.Fatal("a committable without a transaction")
			}
			j.publish(id)
			j.resolve(id, true)
		}
		_, ps := j.prepare()
		j.finish(ps)
		j.wantExactly(120)
		if n := len(j.writers[0].slots.all); n != 0 {
			t.Errorf("%d transactional ids", n)
		}
	})
}

func TestAtLeastOnceFailsAtTheBarrier(t *testing.T) {
	j := one(t, func(c *Config) { c.Policy.Mode = checkpoint.AtLeastOnce })
	j.start()
	j.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.InvalidRecord})
	if err := j.untilItFails(); stream.ClassOf(err) != stream.Restart {
		t.Errorf("%v", err)
	}
}

func TestTimeoutAboveBrokerMaximum(t *testing.T) {
	j := one(t, func(c *Config) { c.TransactionTimeout = 2 * time.Minute }, kfake.BrokerConfigs(map[string]string{"transaction.max.timeout.ms": "60000"}))
	err := j.tryStart()
	if stream.CodeOf(err) != "kafka.timeout_above_broker_maximum" || stream.ClassOf(err) != stream.BadConfig || !strings.Contains(err.Error(), "60000") {
		t.Errorf("%v", err)
	}
	if _, _, err := j.cfg.Limits(t.Context(), j.world); stream.CodeOf(err) != "kafka.timeout_above_broker_maximum" {
		t.Errorf("%v", err)
	}
	j.cfg.TransactionTimeout = 0
	if d, _, err := j.cfg.Limits(t.Context(), j.world); err != nil || d != time.Minute {
		t.Errorf("default %v %v", d, err)
	}
}

func TestDeadlineIsInTheCommittable(t *testing.T) {
	j := one(t, nil)
	j.start()
	before := time.Now().Truncate(time.Millisecond)
	j.write(1)
	begun := time.Now()
	_, ps := j.prepare()
	j.finish(ps)
	c := j.open[0]
	if begin := c.Deadline.Add(-j.cfg.TransactionTimeout); begin.Before(before) || begin.After(begun) {
		t.Errorf("a transaction begun between %v and %v is over at %v", before, begun, c.Deadline)
	}
	if c.Rows != 1 || c.Sink != uid || c.Attempt != 1 || c.Kind != "kafka-txn" || c.Version != 1 {
		t.Errorf("%+v", c)
	}
}

func TestCommitNeedsAPermit(t *testing.T) {
	j := one(t, nil)
	j.start()
	j.write(5)
	_, ps := j.prepare()
	j.finish(ps)
	if _, err := j.committer.Commit(t.Context(), checkpoint.Permit{}, j.open[0]); err == nil {
		t.Error("committed without a permit")
	}
	if rows := j.visibleNow(); rows != 0 {
		t.Errorf("%d rows", rows)
	}
}

// visibleNow counts rows up to the last stable offset.
func (j *job) visibleNow() (n int) {
	j.t.Helper()
	j.fence()
	return len(j.read())
}

// fence ends the own attempt's open transactions, as a cancelled job does.
func (j *job) fence() {
	j.t.Helper()
	j.must(j.committer.Fence(j.t.Context(), []stream.Attempt{j.attempt.Number()}, nil))
}

func TestCancelEndsOwnTransactions(t *testing.T) {
	eachBroker(t, func(t *testing.T, j *job) {
		j.start()
		j.write(30)
		j.checkpoint()
		j.write(30)
		_, ps := j.prepare()
		j.finish(ps)
		j.write(30)
		j.fence()
		j.wantExactly(30)
	})
}

func TestProblems(t *testing.T) {
	conn := kafkaconn.Config{SeedBrokers: []string{"k:9092"}}
	for _, tc := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"good", Config{Conn: conn, Topics: []string{"a", "b.c_d-e"}}, ""},
		{"no topic", Config{Conn: conn}, "kafka.topics"},
		{"bad topic", Config{Conn: conn, Topics: []string{"a b"}}, "kafka.topics"},
		{"twice", Config{Conn: conn, Topics: []string{"a", "a"}}, "kafka.topics"},
		{"compression", Config{Conn: conn, Topics: []string{"a"}, Compression: "rar"}, "kafka.compression"},
		{"timeout", Config{Conn: conn, Topics: []string{"a"}, TransactionTimeout: time.Millisecond}, "kafka.transaction_timeout"},
		{"linger", Config{Conn: conn, Topics: []string{"a"}, Linger: time.Hour}, "kafka.linger"},
		{"memory", Config{Conn: conn, Topics: []string{"a"}, HoldBytes: -1}, "kafka.memory"},
		{"prefix", Config{Conn: conn, Topics: []string{"a"}, Prefix: "a*"}, "kafka.prefix"},
		{"brokers", Config{Topics: []string{"a"}}, "kafka.brokers"},
	} {
		c := tc.cfg.WithDefaults()
		var codes []string
		for _, err := range c.Problems() {
			codes = append(codes, stream.CodeOf(err))
		}
		if got := strings.Join(codes, " "); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	if n := (Config{}).WithDefaults(); n.Slots() != 2*(1+3)+2 {
		t.Errorf("%d slots", n.Slots())
	}
}

// Two sinks get one batch: one produces the fetched records themselves, the other copies.
func TestTwoSinksShareABatch(t *testing.T) {
	j := one(t, nil)
	j.start()
	other := NewWriter(j.cfg)
	env := stream.Env{World: stream.SystemWorld(slog.New(slog.DiscardHandler)), Job: "job", Lineage: j.attempt.Lineage(), Attempt: 1, UID: "second"}
	j.must(other.Open(t.Context(), env, nil))
	defer other.Close()
	recs := []*kgo.Record{{Key: []byte("0"), Value: []byte("0")}, {Key: []byte("1"), Value: []byte("1")}}
	freed := 0
	b := stream.NewOriginBatch(nil, kafkaconn.NewFetched(recs), func(b *stream.Batch) { freed++; b.Origin().(*kafkaconn.Fetched).Recycle() })
	for i, r := range recs {
		b.Append(stream.Record{Key: r.Key, Value: r.Value, Pos: int32(i)})
	}
	b.Retain()
	j.must(j.writers[0].Write(t.Context(), b, &j.rejects))
	if freed != 0 {
		t.Fatal("freed while the second sink holds it")
	}
	j.must(other.Write(t.Context(), b, &j.rejects))
	p, err := other.PrepareCommit(t.Context(), stream.NewCheckpointID(1, 1), &j.rejects)
	j.must(err)
	if _, err := p.Finish(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if freed != 1 {
		t.Errorf("freed %d times", freed)
	}
	j.checkpoint()
}
