package kafkatxn

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"etl/internal/fault"
	"etl/sink"
	"etl/stream"
)

var lanes = Lanes{Subtasks: 2, Slots: 3}

func (l *lab) fence(owners []stream.Attempt, keep ...*Payload) {
	l.t.Helper()
	if err := l.open().Fence(l.t.Context(), owners, lanes, keep); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) seen(txid string) seen {
	l.t.Helper()
	s, err := l.open().describeOne(l.t.Context(), txid)
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

// The orphan of a checkpoint that nobody published goes away, and with it what holds
// readers back; its producer cannot go on.
func TestFenceEndsOrphans(t *testing.T) {
	eachBroker(t, func(t *testing.T, l *lab) {
		txid := l.names.TxID(1, 1, 2)
		zombie := l.producer(txid, time.Minute)
		l.fill(zombie, 9)
		l.fence([]stream.Attempt{1})
		if n := l.visible(); n != 0 {
			t.Errorf("%d rows are visible", n)
		}
		l.unpinned()
		l.zombieIsOut(zombie)
		if n := l.visible(); n != 0 {
			t.Errorf("%d rows of the zombie are visible", n)
		}
	})
}

// unpinned checks that readers get to the end of every partition.
func (l *lab) unpinned() {
	l.t.Helper()
	l.eventually("nothing holds readers back", func() bool {
		hs, err := l.open().openOn(l.t.Context(), l.spots())
		if err != nil {
			l.t.Fatal(err)
		}
		return len(hs) == 0
	})
}

func (l *lab) spots() (out []spot) {
	for p := range int32(l.parts) {
		out = append(out, spot{l.topic, p})
	}
	return out
}

// zombieIsOut lets a fenced producer go on; nothing it does may succeed. kgo gives up at
// the first record, so each is the zombie's last word.
func (l *lab) zombieIsOut(zombie *kgo.Client) {
	l.t.Helper()
	if err := zombie.ProduceSync(l.t.Context(), &kgo.Record{Topic: l.topic, Value: []byte("zombie")}).FirstErr(); err == nil {
		l.t.Error("the zombie wrote a record")
	}
	if err := zombie.EndTransaction(l.t.Context(), kgo.TryCommit); err == nil {
		l.t.Error("the zombie committed")
	}
}

// What the restored checkpoint lists stays exactly as it is, also when the fence comes
// again and again before it is committed.
func TestFenceKeeps(t *testing.T) {
	eachBroker(t, func(t *testing.T, l *lab) {
		p := l.prepare(0, 0, id(1, 1), 10)
		done := l.prepare(0, 1, id(1, 2), 10)
		orphan := l.prepare(0, 2, id(1, 3), 10)
		before := l.seen(p.TxID)
		for range 3 {
			l.fence([]stream.Attempt{1}, p, done)
		}
		if after := l.seen(p.TxID); after.pid != before.pid || after.epoch != before.epoch || !after.open(p.Txn) {
			t.Errorf("it was touched: %v, was %v", after, before)
		}
		c := l.open()
		wantCommit(t, c, p, id(1, 1), sink.Done)
		wantCommit(t, c, done, id(1, 2), sink.Done)
		l.fence([]stream.Attempt{1}, p, done) // and complete ones stay, too: a crash loop asks again
		wantCommit(t, c, p, id(1, 1), sink.Done)
		wantCommit(t, c, done, id(1, 2), sink.Done)
		wantCommit(t, c, orphan, id(1, 3), sink.Lost)
		if n := l.visible(); n != 20 {
			t.Errorf("%d rows", n)
		}
	})
}

// A slot that was used on after its commit was verified carries an orphan that nobody
// else would end (FLINK-40626).
func TestFenceEndsOrphanUnderAKeptID(t *testing.T) {
	eachBroker(t, func(t *testing.T, l *lab) {
		p := l.prepare(0, 0, id(1, 1), 10)
		c := l.open()
		wantCommit(t, c, p, id(1, 1), sink.Done)
		l.prepare(0, 0, id(1, 2), 10)
		l.fence([]stream.Attempt{1}, p)
		l.unpinned()
		if r := wantCommit(t, c, p, id(1, 1), sink.Already); !r.ByMarker {
			t.Errorf("%+v", r)
		}
		if n := l.visible(); n != 10 {
			t.Errorf("%d rows", n)
		}
	})
}

// The fence touches the owners' ids of this job, sink and lineage, and nothing else.
func TestFenceTouchesNothingElse(t *testing.T) {
	eachBroker(t, func(t *testing.T, l *lab) {
		mine := l.names
		others := map[string]*kgo.Client{}
		for name, n := range map[string]Names{
			"lineage": {Job: mine.Job, Sink: mine.Sink, Lineage: lineage(9)},
			"job":     {Job: mine.Job + "x", Sink: mine.Sink, Lineage: mine.Lineage},
			"sink":    {Job: mine.Job, Sink: mine.Sink + "x", Lineage: mine.Lineage},
			"prefix":  {Prefix: "other", Job: mine.Job, Sink: mine.Sink, Lineage: mine.Lineage},
		} {
			others[name] = l.producer(n.TxID(0, 1, 0), time.Minute)
		}
		others["newer attempt"] = l.producer(mine.TxID(0, 3, 0), time.Minute)
		others["attempt not named"] = l.producer(mine.TxID(0, 1, 1), time.Minute)
		for _, cl := range others {
			l.fill(cl, 1)
		}
		l.fill(l.producer(mine.TxID(0, 2, 0), time.Minute), 1)
		l.fence([]stream.Attempt{2})
		for name, cl := range others {
			if err := cl.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		l.eventually("the others' rows are visible", func() bool { return l.visible() == len(others) })
	})
}

// Fencing what nobody ever used makes nothing, and fencing again leaves sealed ids of
// older attempts alone, so that they expire one day.
func TestFenceLeavesNoTrace(t *testing.T) {
	eachBroker(t, func(t *testing.T, l *lab) {
		l.fence([]stream.Attempt{1, 2})
		if s := l.seen(l.names.TxID(0, 1, 0)); s.found {
			t.Error("an id was made by fencing it")
		}
		txid := l.names.TxID(0, 1, 0)
		l.fill(l.producer(txid, time.Minute), 1)
		l.fence([]stream.Attempt{1})
		sealed := l.seen(txid)
		l.fence([]stream.Attempt{1, 2, 3})
		if again := l.seen(txid); again.epoch != sealed.epoch || again.state != sealed.state {
			t.Errorf("touched again: %v, was %v", again, sealed)
		}
	})
}

func TestFencesAtOnce(t *testing.T) {
	eachBroker(t, func(t *testing.T, l *lab) {
		for slot := range 3 {
			l.prepare(0, slot, id(1, slot+1), 3)
		}
		p := l.prepare(1, 0, id(1, 1), 10)
		var wg sync.WaitGroup
		for range 4 {
			c := l.open()
			wg.Go(func() {
				if err := c.Fence(t.Context(), []stream.Attempt{1}, lanes, []*Payload{p}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		wantCommit(t, l.open(), p, id(1, 1), sink.Done)
		l.unpinned()
		if n := l.visible(); n != 10 {
			t.Errorf("%d rows", n)
		}
	})
}

// Between the abort and the seal a zombie's own InitProducerID is answered with a good
// epoch, and it begins again. The seal, which comes later, is what stops it.
func TestSealStopsZombieThatInitialisesInBetween(t *testing.T) {
	eachBroker(t, func(t *testing.T, l *lab) {
		txid := l.names.TxID(0, 1, 0)
		first := l.producer(txid, time.Minute)
		pid, epoch, err := first.ProducerID(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		l.fill(first, 3)
		zombie := l.plain(Caps(l.tv))
		var again Txn
		fault.Watch(func(name string) {
			if name == "kafka.fence.aborted" && again.TxID == "" {
				again = l.reinit(zombie, Txn{TxID: txid, PID: pid, Epoch: epoch, TV: l.tv})
			}
		})
		defer fault.Watch(nil)
		l.fence([]stream.Attempt{1})
		if again.TxID == "" {
			t.Fatal("the zombie had no chance")
		}
		// Whatever epoch it was given, it is not good any more.
		if v, err := l.open().EndTxn(t.Context(), again, true); v != Final {
			t.Errorf("the zombie's commit: %v %v", v, err)
		}
		l.unpinned()
		if n := l.visible(); n != 0 {
			t.Errorf("%d rows", n)
		}
	})
}

// reinit is what kgo sends by itself when its producer id was bumped (KIP-360).
func (l *lab) reinit(cl *kgo.Client, t Txn) Txn {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &t.TxID, 60000
	req.ProducerID, req.ProducerEpoch = t.PID, t.Epoch
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		l.t.Error(err)
		return t
	}
	if resp.ErrorCode == 0 {
		t.PID, t.Epoch = resp.ProducerID, resp.ProducerEpoch
	}
	return t
}

// The zombie goes on under an old id after the fence: the sweep ends that.
func TestSweep(t *testing.T) {
	eachBroker(t, func(t *testing.T, l *lab) {
		kept := l.prepare(0, 0, id(1, 1), 3)
		l.fence([]stream.Attempt{1}, kept)
		txid := l.names.TxID(0, 1, 1)
		l.fill(l.producer(txid, time.Minute), 3)                // a slot the zombie had not used yet
		own := l.producer(l.names.TxID(0, 2, 0), time.Minute)   // the new attempt at work
		newer := l.producer(l.names.TxID(0, 3, 0), time.Minute) // and one after it
		l.fill(own, 1)
		l.fill(newer, 1)
		c := l.open()
		n, err := c.Sweep(t.Context(), 2, []*Payload{kept})
		if err != nil || n != 2 { // the kept one is looked at, and left
			t.Errorf("swept %d: %v", n, err)
		}
		if s := l.seen(txid); s.state == stateOngoing {
			t.Errorf("the zombie's transaction: %v", s)
		}
		for _, cl := range []*kgo.Client{own, newer} {
			if err := cl.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
				t.Error(err)
			}
		}
		wantCommit(t, c, kept, id(1, 1), sink.Done)
		l.unpinned()
		if n := l.visible(); n != 5 {
			t.Errorf("%d rows", n)
		}
	})
}

func TestInspect(t *testing.T) {
	eachBroker(t, func(t *testing.T, l *lab) {
		open := l.prepare(1, 2, id(4, 1), 3)
		done := l.prepare(0, 0, id(4, 1), 3)
		c := l.open()
		wantCommit(t, c, done, id(4, 1), sink.Done)
		var ds []sink.InDoubt
		l.eventually("only the open one is in doubt", func() bool { // a coordinator notes the end after it has shown the rows
			var err error
			if ds, err = c.Inspect(t.Context()); err != nil {
				t.Fatal(err)
			}
			return len(ds) == 1
		})
		if d := ds[0]; d.ID != open.ID() || d.Left <= 0 || d.Attempt != 4 || d.Subtask != 1 || d.State != stateOngoing || d.Age < 0 || d.Age > time.Minute {
			t.Errorf("%+v", d)
		}
	})
}

// An id that cannot be fenced fails the fence: the job must not start over it.
func TestFenceFailsLoudly(t *testing.T) {
	l := fakeLab(t)
	l.prepare(0, 0, id(1, 1), 3)
	c := l.open()
	ctx, cancel := context.WithCancel(t.Context())
	fault.Watch(func(name string) {
		if name == "kafka.fence.described" {
			cancel()
		}
	})
	defer fault.Watch(nil)
	if err := c.Fence(ctx, []stream.Attempt{1}, lanes, nil); err == nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
