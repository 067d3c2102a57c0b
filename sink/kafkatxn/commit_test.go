package kafkatxn

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"etl/internal/kafkatest"
	"etl/sink"
	"etl/stream"
)

func TestCommitFromAnotherProcess(t *testing.T) {
	eachBroker(t, func(t *testing.T, l *lab) {
		p := l.prepare(0, 0, id(1, 1), 100)
		if n := l.visible(); n != 0 {
			t.Fatalf("%d rows are visible before the commit", n)
		}
		if n := l.written(); n != 100 {
			t.Fatalf("%d rows are written", n)
		}
		c := l.open()
		pr, err := c.Probe(t.Context(), p, id(1, 1), time.Now())
		if err != nil || pr.Status != sink.Open || pr.Marker != stream.NoCheckpoint {
			t.Fatalf("probe before: %+v %v", pr, err)
		}
		wantCommit(t, c, p, id(1, 1), sink.Done)
		if n := l.visible(); n != 100 {
			t.Errorf("%d rows are visible", n)
		}
		pr, err = c.Probe(t.Context(), p, id(1, 1), time.Now())
		if err != nil || pr.Status != sink.Committed || pr.Marker != id(1, 1) {
			t.Errorf("probe after: %+v %v", pr, err)
		}
		for range 3 { // committing twice equals committing once (I10)
			wantCommit(t, l.open(), p, id(1, 1), sink.Done)
		}
		if n := l.visible(); n != 100 {
			t.Errorf("%d rows are visible after more commits", n)
		}
	})
}

func wantCommit(t *testing.T, c *Client, p *Payload, id stream.CheckpointID, want sink.Outcome) sink.Result {
	t.Helper()
	r, err := c.Commit(t.Context(), p, id)
	if err != nil || r.Outcome != want {
		t.Fatalf("commit of %s: %v (%s), %v; want %v", id, r.Outcome, r.Detail, err, want)
	}
	return r
}

// An id that was initialised again answers "fenced" for what was committed before:
// only the marker tells.
func TestReusedSlotIsResolvedByMarker(t *testing.T) {
	eachBroker(t, func(t *testing.T, l *lab) {
		p := l.prepare(0, 0, id(1, 1), 10)
		c := l.open()
		wantCommit(t, c, p, id(1, 1), sink.Done)
		q := l.prepare(0, 0, id(1, 2), 10) // the same id, initialised again
		if r := wantCommit(t, l.open(), p, id(1, 1), sink.Already); !r.ByMarker {
			t.Errorf("%+v", r)
		}
		wantCommit(t, c, q, id(1, 2), sink.Done)
		wantCommit(t, c, p, id(1, 1), sink.Already) // the marker is ahead now
		if n := l.visible(); n != 20 {
			t.Errorf("%d rows", n)
		}
	})
}

func TestFencedIsLost(t *testing.T) {
	eachBroker(t, func(t *testing.T, l *lab) {
		p := l.prepare(0, 0, id(1, 1), 10)
		c := l.open()
		if _, err := c.initProducer(t.Context(), p.TxID); err != nil {
			t.Fatal(err)
		}
		pr, err := c.Probe(t.Context(), p, id(1, 1), time.Now())
		if err != nil || pr.Status != sink.Gone {
			t.Errorf("probe: %+v %v", pr, err)
		}
		wantCommit(t, c, p, id(1, 1), sink.Lost)
		if n := l.visible(); n != 0 {
			t.Errorf("%d rows", n)
		}
	})
}

func TestTimedOutIsLost(t *testing.T) {
	eachBroker(t, func(t *testing.T, l *lab) {
		p := l.prepareFor(0, 0, id(1, 1), 10, 5*time.Second) // time enough to prepare it
		c := l.open()
		l.eventually("the broker aborts it", func() bool {
			s, err := c.describeOne(t.Context(), p.TxID)
			return err == nil && !s.open(p.Txn) && !s.unsettled()
		})
		wantCommit(t, c, p, id(1, 1), sink.Lost)
	})
}

// A marker that may have expired proves nothing by its absence.
func TestExpiredMarkerIsUndecided(t *testing.T) {
	eachBroker(t, func(t *testing.T, l *lab) {
		p := l.prepare(0, 0, id(1, 1), 10)
		c := l.open()
		if _, err := c.initProducer(t.Context(), p.TxID); err != nil {
			t.Fatal(err)
		}
		p.StartMillis = l.world.Clock.Now().Add(-8 * 24 * time.Hour).UnixMilli()
		wantCommit(t, c, p, id(1, 1), sink.Undecided)
		pr, err := c.Probe(t.Context(), p, id(1, 1), time.Now())
		if err != nil || pr.Status != sink.Unknown {
			t.Errorf("%+v %v", pr, err)
		}
	})
}

// A topic made anew took the markers of the old one with it.
func TestRecreatedTopicIsUndecided(t *testing.T) {
	l := fakeLab(t)
	p := l.prepare(0, 0, id(1, 1), 10)
	c := l.open()
	if _, err := c.initProducer(t.Context(), p.TxID); err != nil {
		t.Fatal(err)
	}
	p.TopicID[0]++
	wantCommit(t, c, p, id(1, 1), sink.Undecided)
}

// A topic that is deleted and made anew between the two phases has taken the rows and the
// marker with it. A client that knew the topic before says so as well as a new one, at any
// number of tries, instead of waiting for a marker that cannot come.
func TestTopicRemadeInDoubt(t *testing.T) {
	for name, broker := range map[string]func(*testing.T) *kafkatest.Broker{"kafka": func(t *testing.T) *kafkatest.Broker { return sharedBroker(t) }, "kafka-tv1": version1} {
		t.Run(name, func(t *testing.T) {
			l := realLab(t, broker(t)) // the in-process broker keeps the offsets of a deleted topic
			p := l.prepare(0, 0, id(1, 1), 10)
			old := l.open()
			if _, err := old.Probe(t.Context(), p, id(1, 1), time.Now()); err != nil { // it knows the topic now
				t.Fatal(err)
			}
			l.remake()
			for _, c := range []*Client{old, l.open(), l.open()} {
				if r := wantCommit(t, c, p, id(1, 1), sink.Undecided); !strings.Contains(r.Detail, "made anew") {
					t.Errorf("it says %q", r.Detail)
				}
			}
			if n := l.visible(); n != 0 {
				t.Errorf("%d rows are visible", n)
			}
		})
	}
}

// A topic that is deleted between the two phases and not made anew is said to be missing,
// instead of a commit that is tried for ever.
func TestTopicGoneInDoubt(t *testing.T) {
	l := realLab(t, sharedBroker(t))
	p := l.prepare(0, 0, id(1, 1), 10)
	c := l.open()
	if _, err := c.Probe(t.Context(), p, id(1, 1), time.Now()); err != nil { // it knows the topic now
		t.Fatal(err)
	}
	l.drop()
	c.patience = time.Second
	r, err := c.Commit(t.Context(), p, id(1, 1))
	if stream.CodeOf(err) != "kafka.topic_missing" || stream.ClassOf(err) != stream.Environment {
		t.Errorf("%v (%s), %v", r.Outcome, r.Detail, err)
	}
}

// Readers of a partition stop at the first open transaction, whoever owns it: a commit
// is verified although another subtask's transaction holds back its rows.
func TestVerifyDoesNotWaitForOthers(t *testing.T) {
	eachBroker(t, func(t *testing.T, l *lab) {
		l.prepare(1, 0, id(1, 2), 3) // another lane, open, first on every partition
		p := l.prepare(0, 0, id(1, 1), 10)
		wantCommit(t, l.open(), p, id(1, 1), sink.Done) // within the patience of one commit
		if n := l.visible(); n != 0 {
			t.Errorf("%d rows are visible", n)
		}
	})
}

func TestAbortAfterCommitChangesNothing(t *testing.T) {
	eachBroker(t, func(t *testing.T, l *lab) {
		p := l.prepare(0, 0, id(1, 1), 10)
		c := l.open()
		wantCommit(t, c, p, id(1, 1), sink.Done)
		if v, err := c.EndTxn(t.Context(), p.Txn, false); v != Final || err == nil {
			t.Errorf("abort after commit: %v %v", v, err)
		}
		wantCommit(t, c, p, id(1, 1), sink.Done)
		if n := l.visible(); n != 10 {
			t.Errorf("%d rows", n)
		}
	})
}

func TestMarkerOfOtherLanesIsNotSeen(t *testing.T) {
	eachBroker(t, func(t *testing.T, l *lab) {
		wantCommit(t, l.open(), l.prepare(0, 0, id(1, 1), 4), id(1, 1), sink.Done)
		c := l.open()
		for sub, want := range []stream.CheckpointID{id(1, 1), stream.NoCheckpoint} {
			m, err := c.ReadMarker(t.Context(), l.names.Group(sub), l.topic)
			if err != nil || m.Checkpoint != want {
				t.Errorf("subtask %d: %+v %v", sub, m, err)
			}
		}
		if m, _ := c.ReadMarker(t.Context(), l.names.Group(0), l.topic); m.Note != "note" {
			t.Errorf("note %q", m.Note)
		}
		if err := c.Foreign(t.Context()); err != nil {
			t.Errorf("own marker taken for foreign: %v", err)
		}
		l.names.Lineage = lineage(2)
		if err := l.open().Foreign(t.Context()); stream.ClassOf(err) != stream.RestoreRefused || stream.CodeOf(err) != "kafka.foreign_lineage" {
			t.Errorf("foreign marker: %v", err)
		}
		l.opts = func(o *Options) { o.AcceptForeign = true }
		if err := l.open().Foreign(t.Context()); err != nil {
			t.Errorf("accepted: %v", err)
		}
	})
}

// The topic that carries the markers may change from one start to the next.
func TestNewestMarkerOverTopics(t *testing.T) {
	l := fakeLab(t, kfake.SeedTopics(1, "second"))
	wantCommit(t, l.open(), l.prepare(0, 0, id(1, 7), 4), id(1, 7), sink.Done)
	l.opts = func(o *Options) { o.Topics = []string{"second", "out"} }
	c := l.open()
	if m, err := c.ReadMarker(t.Context(), l.names.Group(0), "second"); err != nil || m.Checkpoint != stream.NoCheckpoint {
		t.Errorf("%+v %v", m, err)
	}
	if m, err := c.NewestMarker(t.Context(), l.names.Group(0)); err != nil || m.Checkpoint != id(1, 7) {
		t.Errorf("%+v %v", m, err)
	}
	if m, err := c.NewestMarker(t.Context(), l.names.Group(5)); err != nil || m.Checkpoint != stream.NoCheckpoint {
		t.Errorf("%+v %v", m, err)
	}
}

func TestMarkerPartition(t *testing.T) {
	l := realLab(t, sharedBroker(t))
	for sub := range 5 {
		txid := l.names.TxID(sub, 1, 0)
		cl := l.producer(txid, time.Minute)
		l.fill(cl, 1)
		pid, epoch, err := cl.ProducerID(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := l.open()
		if err := c.Mark(t.Context(), Txn{TxID: txid, PID: pid, Epoch: epoch, TV: l.tv}, sub, id(1, 1), ""); err != nil {
			t.Fatal(err)
		}
		s, err := c.describeOne(t.Context(), txid)
		if err != nil {
			t.Fatal(err)
		}
		want, ok, err := c.markerSpot(t.Context(), l.names.Group(sub))
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if !s.parts.Lookup(offsetsTopic, want.partition) {
			t.Errorf("subtask %d: marker expected on %s, the transaction covers %v", sub, want, s.parts)
		}
	}
}
