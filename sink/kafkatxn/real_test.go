package kafkatxn

import (
	"os"
	"sync/atomic"
	"testing"
	"time"

	"etl/internal/fault"
	"etl/internal/kafkaconn"
	"etl/internal/kafkatest"
	"etl/sink"
)

// The answer to EndTxn is lost on the way: the identical request is sent again, and
// there is one commit.
func TestAnswerLost(t *testing.T) {
	b := kafkatest.Start(t, kafkatest.Config{Proxy: true})
	direct := newLab(t, b.Seeds(), b.Topic(t, 3), 3)
	p := direct.prepare(0, 0, id(1, 1), 20)
	direct.opts = func(o *Options) { o.Conn = kafkaconn.Config{SeedBrokers: []string{b.Proxy().Addr()}} }
	c := direct.open()
	if v, _, err := c.endTxn(t.Context(), Txn{TxID: p.TxID, PID: p.PID, Epoch: p.Epoch + 9, TV: p.TV}, true); err != nil || v == 0 {
		t.Fatal(v, err) // refused; now the client knows the coordinator and is connected to it
	}
	var sent atomic.Int32
	fault.Watch(func(name string) {
		if name == "kafka.endtxn.before" {
			if err := b.Proxy().Add("timeout", "downstream", map[string]any{"timeout": 0}); err != nil {
				t.Error(err)
			}
		}
		if name == "kafka.endtxn.sent" && sent.Add(1) == 1 {
			go func() {
				direct.eventually("the first request is committed", func() bool { return direct.visible() == 20 })
				b.Proxy().Down() // before the hole is closed: what hangs in it never comes out
				b.Proxy().Reset()
				if err := b.Proxy().Up(); err != nil {
					t.Error(err)
				}
			}()
		}
	})
	defer fault.Watch(nil)
	wantCommit(t, c, p, id(1, 1), sink.Done)
	if sent.Load() < 2 {
		t.Errorf("sent %d times: the answer was not lost", sent.Load())
	}
	if n := direct.visible(); n != 20 {
		t.Errorf("%d rows", n)
	}
}

// The broker forgets a transactional id that lay unused. What was prepared under it is
// never forgotten; what was committed is known by its marker.
func TestExpiredID(t *testing.T) {
	b := kafkatest.Start(t, kafkatest.Config{Properties: map[string]string{
		"transactional.id.expiration.ms": "5000", "transaction.remove.expired.transaction.cleanup.interval.ms": "500"}})
	l := newLab(t, b.Seeds(), b.Topic(t, 3), 3)
	done := l.prepare(0, 0, id(1, 1), 10)
	c := l.open()
	wantCommit(t, c, done, id(1, 1), sink.Done)
	open := l.prepare(0, 1, id(1, 2), 10)
	l.eventually("the id of the committed one is forgotten", func() bool { return !l.seen(done.TxID).found })
	if s := l.seen(open.TxID); !s.open(open.Txn) {
		t.Fatalf("the prepared one: %v", s)
	}
	if r := wantCommit(t, c, done, id(1, 1), sink.Already); !r.ByMarker {
		t.Errorf("%+v", r)
	}
	wantCommit(t, c, open, id(1, 2), sink.Done)
	if n := l.visible(); n != 20 {
		t.Errorf("%d rows", n)
	}
}

// The group coordinator forgets a marker whose retention is over. From then on a
// committed transaction whose id was used again is unknown: neither committed nor lost.
func TestExpiredMarkerOnABroker(t *testing.T) {
	if os.Getenv("ETL_SLOW") == "" {
		t.Skip("waits for a minute of retention: ETL_SLOW=1 (in virtual time: sink/twophase/kafka, TestUnconfirmedForAMonth)")
	}
	b := kafkatest.Start(t, kafkatest.Config{Properties: map[string]string{"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}})
	l := newLab(t, b.Seeds(), b.Topic(t, 3), 3)
	p := l.prepare(0, 0, id(1, 1), 10)
	c := l.open()
	if c.Limits.OffsetsRetention != time.Minute {
		t.Fatalf("%+v", c.Limits)
	}
	wantCommit(t, c, p, id(1, 1), sink.Done)
	if _, err := c.initProducer(t.Context(), p.TxID); err != nil {
		t.Fatal(err)
	}
	wantCommit(t, c, p, id(1, 1), sink.Already) // while the marker is there
	l.eventually("the marker is forgotten", func() bool {
		m, err := c.ReadMarker(t.Context(), p.Group, p.Topic)
		return err == nil && m.Checkpoint == 0
	})
	wantCommit(t, c, p, id(1, 1), sink.Undecided)
}

// Rights on a broker that checks them: commit and fence with the least of them, and a
// heal that may not write markers says which right it wants.
func TestSecured(t *testing.T) {
	b := kafkatest.Start(t, kafkatest.Config{Secure: true})
	sec := b.Security()
	l := newLab(t, b.Seeds(), b.Topic(t, 3), 3)
	ca := t.TempDir() + "/ca.pem"
	writeFile(t, ca, sec.CAPEM)
	for name, conn := range map[string]kafkaconn.Config{
		"sasl":     {SeedBrokers: []string{sec.SASLAddr}, SASL: &kafkaconn.SASL{Mechanism: kafkaconn.Plain, Username: kafkatest.User, Password: kafkatest.Password}},
		"sasl tls": {SeedBrokers: []string{sec.SASLTLSAddr}, TLS: &kafkaconn.TLS{CAFile: ca}, SASL: &kafkaconn.SASL{Mechanism: kafkaconn.ScramSHA512, Username: kafkatest.User, Password: kafkatest.Password}},
		"tls":      {SeedBrokers: []string{sec.TLSAddr}, TLS: &kafkaconn.TLS{CAFile: ca}},
	} {
		p := l.prepare(0, 0, id(1, len(name)), 5)
		l.opts = func(o *Options) { o.Conn = conn }
		c := l.open()
		l.opts = nil
		if r, err := c.Commit(t.Context(), p, id(1, len(name))); err != nil || r.Outcome != sink.Done {
			t.Errorf("%s: %+v %v", name, r, err)
		}
	}
	if n := l.visible(); n != 15 {
		t.Errorf("%d rows", n)
	}
}
