package kafkatxn

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/sink"
	"etl/stream"
)

// delivery is n rows of a checkpoint.
func (l *lab) delivery(attempt stream.Attempt, id stream.CheckpointID, n int) Short {
	return Short{Checkpoint: id, Attempt: attempt, Since: l.world.Clock.Now(), Client: []kgo.Opt{kgo.RecordPartitioner(&Partitioner{})},
		Rows: func(produce func(*kgo.Record) error) error {
			for i := range n {
				if err := produce(&kgo.Record{Topic: l.topic, Partition: ByKey, Key: fmt.Append(nil, i), Value: []byte("v")}); err != nil {
					return err
				}
			}
			return nil
		}}
}

func (l *lab) wantDelivered(s *Shorts, d Short, want sink.Outcome) {
	l.t.Helper()
	r, err := s.Deliver(l.t.Context(), d)
	if err != nil || r.Outcome != want {
		l.t.Fatalf("deliver %s by attempt %d: %+v, %v, want %s", d.Checkpoint, d.Attempt, r, err, want)
	}
}

// Delivered twice is delivered once: by the same process, by another one that knows
// nothing, and after a later delivery.
func TestShortDeliversOnce(t *testing.T) {
	eachBroker(t, func(t *testing.T, l *lab) {
		one, two := NewShorts(l.open()), NewShorts(l.open())
		first, second := stream.NewCheckpointID(1, 1), stream.NewCheckpointID(1, 2)
		l.wantDelivered(one, l.delivery(1, first, 20), sink.Done)
		l.wantDelivered(one, l.delivery(1, first, 20), sink.Already)
		l.wantDelivered(two, l.delivery(1, first, 20), sink.Already)
		l.wantDelivered(two, l.delivery(1, second, 5), sink.Done)
		l.wantDelivered(one, l.delivery(1, first, 20), sink.Already)
		if n := l.visible(); n != 25 {
			t.Errorf("readers see %d rows", n)
		}
	})
}

// A delivery that was left open, its rows acknowledged and its marker written, is ended by
// the next one, which makes it anew.
func TestShortEndsWhatWasLeft(t *testing.T) {
	eachBroker(t, func(t *testing.T, l *lab) {
		id := stream.NewCheckpointID(1, 1)
		c := l.open()
		cl := l.producer(l.names.ShortID(0), time.Minute)
		l.fill(cl, 9)
		pid, epoch, err := cl.ProducerID(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Mark(t.Context(), Txn{TxID: l.names.ShortID(0), PID: pid, Epoch: epoch, TV: l.tv}, 0, id, "1/rows"); err != nil {
			t.Fatal(err)
		}
		if left, err := NewShorts(c).Inspect(t.Context()); err != nil || len(left) != 1 || left[0].ID != l.names.ShortID(0) {
			t.Errorf("%+v, %v", left, err)
		}
		l.wantDelivered(NewShorts(l.open()), l.delivery(2, id, 20), sink.Done)
		if n := l.visible(); n != 20 {
			t.Errorf("readers see %d rows", n)
		}
	})
}

// A stopped process of a lower attempt that goes on after a fence delivers nothing: neither
// what its successor gave up, nor on a lane that nobody had used; and it leaves the marker.
func TestShortFence(t *testing.T) {
	eachBroker(t, func(t *testing.T, l *lab) {
		old, now := NewShorts(l.open()), NewShorts(l.open())
		given, abandoned := stream.NewCheckpointID(1, 1), stream.NewCheckpointID(1, 2)
		l.wantDelivered(old, l.delivery(1, given, 5), sink.Done)
		for sub := range 2 {
			if err := now.Fence(t.Context(), 2, sub, nil); err != nil {
				t.Fatal(err)
			}
			if err := old.Fence(t.Context(), 1, sub, nil); err != nil { // a zombie's fence changes nothing
				t.Fatal(err)
			}
			d := l.delivery(1, abandoned, 5)
			d.Subtask = sub
			if r, err := old.Deliver(t.Context(), d); stream.ClassOf(err) != stream.Fenced {
				t.Errorf("subtask %d: %+v, %v", sub, r, err)
			}
			m, err := l.open().NewestMarker(t.Context(), l.names.Group(sub))
			if want := []stream.CheckpointID{given, stream.NoCheckpoint}[sub]; err != nil || m.Checkpoint != want || noteAttempt(m.Note) != 2 {
				t.Errorf("subtask %d: %+v, %v, want %s", sub, m, err, want)
			}
		}
		l.wantDelivered(now, l.delivery(2, stream.NewCheckpointID(2, 1), 5), sink.Done)
		if n := l.visible(); n != 10 {
			t.Errorf("readers see %d rows", n)
		}
		if lanes, err := now.Lanes(t.Context()); err != nil || len(lanes) != 2 {
			t.Errorf("%v, %v", lanes, err)
		}
	})
}

func TestShortIDs(t *testing.T) {
	n := Names{Job: "a.b", Sink: "c", Lineage: lineage(7)}
	id := n.ShortID(3)
	if l8, sub, ok := n.ParseShortID(id); !ok || sub != 3 || l8 != n.Lineage.Short() {
		t.Errorf("%s is not read back", id)
	}
	for _, other := range []Names{{Job: "a", Sink: "b.c"}, {Job: "a.b", Sink: "c2"}, {Prefix: "x", Job: "a.b", Sink: "c"}} {
		if _, _, ok := other.ParseShortID(id); ok {
			t.Errorf("%+v takes %s for its own", other, id)
		}
	}
	if _, ok := n.ParseTxID(id); ok {
		t.Errorf("%s is taken for the id of a slot", id)
	}
	if _, _, ok := (Names{Job: "0", Sink: "j"}).ParseShortID(Names{Job: "short", Sink: "0", Lineage: lineage(1)}.TxID(1, 2, 3)); ok {
		t.Error("the id of a slot of a job named short is taken for a lane's")
	}
}
