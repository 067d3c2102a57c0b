package kafkatxn

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"etl/stream"
)

func TestNamesGolden(t *testing.T) {
	n := Names{Job: "orders", Sink: "out", Lineage: lineage(0xab)}
	for got, want := range map[string]string{
		n.TxID(3, 12, 4): "etl.orders.out.3.abababab.12.4",
		n.Group(3):       "etl.commit.orders.out.abababab.3",
		Names{Prefix: "team.a", Job: "a.b c", Sink: "ü%", Lineage: lineage(1)}.TxID(0, 1, 0): "team.a.a%2Eb%20c.%C3%BC%25.0.01010101.1.0",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestLongNamesAreHashed(t *testing.T) {
	long := Names{Job: strings.Repeat("überlang.", 60), Sink: stream.UID(strings.Repeat("x", 400)), Lineage: lineage(1), Prefix: strings.Repeat("p", 64)}
	other := long
	other.Job += "!"
	id, group := long.TxID(1<<30, 1<<31, 99), long.Group(1<<30)
	if len(id) > 249 || len(group) > 249 {
		t.Errorf("%d and %d bytes", len(id), len(group))
	}
	if id == other.TxID(1<<30, 1<<31, 99) {
		t.Error("two jobs share an id")
	}
	if _, ok := other.ParseTxID(id); ok {
		t.Error("one job takes another's id for its own")
	}
	if p, ok := long.ParseTxID(id); !ok || p.Subtask != 1<<30 || p.Slot != 99 {
		t.Errorf("%+v %v", p, ok)
	}
}

// What is parsed is exactly what was named, and nothing else is.
func TestNamesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := Names{
			Prefix:  rapid.StringMatching(`[a-z][a-z.]{0,10}`).Draw(t, "prefix"),
			Job:     rapid.String().Draw(t, "job"),
			Sink:    stream.UID(rapid.String().Draw(t, "sink")),
			Lineage: lineage(rapid.Byte().Draw(t, "lineage")),
		}
		sub, slot := rapid.IntRange(0, 1000).Draw(t, "sub"), rapid.IntRange(0, 1000).Draw(t, "slot")
		attempt := stream.Attempt(rapid.Uint32Range(1, 1<<31).Draw(t, "attempt"))
		id, ok := n.ours(n.TxID(sub, attempt, slot))
		if want := (ID{sub, n.Lineage.Short(), attempt, slot}); !ok || id != want {
			t.Fatalf("%+v, want %+v", id, want)
		}
		l, s, ok := n.ParseGroup(n.Group(sub))
		if !ok || l != n.Lineage.Short() || s != sub {
			t.Fatalf("group: %s %d %v", l, s, ok)
		}
		other := n
		other.Job = rapid.String().Draw(t, "other")
		if _, ok := other.ParseTxID(n.TxID(sub, attempt, slot)); ok && other.Job != n.Job {
			t.Fatalf("job %q takes ids of job %q", other.Job, n.Job)
		}
	})
}

func TestOnlyExactNamesAreOurs(t *testing.T) {
	n := Names{Job: "j", Sink: "s", Lineage: lineage(1)}
	for _, s := range []string{
		"etl.j.s.0.01010101.1", "etl.j.s.0.01010101.1.0.0", "etl.j.s.00.01010101.1.0", "etl.j.s.0.01010101.+1.0",
		"etl.j.s.0.01010101.0.0", "etl.j.s.0.0101010.1.0", "etl.j.s.0.0101010G.1.0", "etl.j.s.0.ABABABAB.1.0", "etl.j.s.-1.01010101.1.0",
		"etl.j.s2.0.01010101.1.0", "etl.j2.s.0.01010101.1.0", "xetl.j.s.0.01010101.1.0", "etl.j.s.0.01010101.4294967296.0", "",
	} {
		if id, ok := n.ParseTxID(s); ok {
			t.Errorf("%q was read as %+v", s, id)
		}
	}
	if _, ok := n.ours("etl.j.s.0.02020202.1.0"); ok {
		t.Error("an id of another lineage is not ours")
	}
}
