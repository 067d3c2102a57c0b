package sqltxn

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"etl/stream"
)

// What GID writes, ParseGID reads back, whatever job and sink are called; and nobody
// else's names are taken for ours.
func TestGID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := Names{Job: rapid.String().Draw(t, "job"), Sink: stream.UID(rapid.String().Draw(t, "sink")), Lineage: stream.Lineage(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "lineage"))}
		subtask := rapid.IntRange(0, 1<<31-1).Draw(t, "subtask")
		id := stream.NewCheckpointID(stream.Attempt(rapid.Uint32Min(1).Draw(t, "attempt")), rapid.Uint32().Draw(t, "n"))
		gid := n.GID(subtask, id)
		if len(gid) > MaxGID {
			t.Fatalf("%d bytes: %s", len(gid), gid)
		}
		got, ok := n.Ours(gid)
		if !ok || got.Subtask != subtask || got.Checkpoint != id || got.Lineage8 != n.Lineage.Short() {
			t.Fatalf("%s: %+v %v", gid, got, ok)
		}
		other := n
		other.Sink += "x"
		if _, ok := other.ParseGID(gid); ok {
			t.Fatalf("%s is taken for one of %q", gid, other.Sink)
		}
		other = n
		other.Lineage[0]++
		if _, ok := other.Ours(gid); ok {
			t.Fatalf("%s is taken for one of another lineage", gid)
		}
	})
}

func TestForeignGIDs(t *testing.T) {
	n := Names{Job: "j", Sink: "s", Lineage: stream.Lineage{0xab}}
	good := n.GID(3, stream.NewCheckpointID(2, 7))
	if good != "etl:ab000000:j:s:3:2.7" {
		t.Error(good)
	}
	for _, bad := range []string{"", "etl", good + ":", good + " ", "etl:AB000000:j:s:3:2.7", "etl:ab000000:j:s:03:2.7", "etl:ab000000:j:s:-3:2.7", "etl:ab000000:j:s:3:2.07",
		"etl:ab000000:j:s:3:0.7", "etl:ab000000:j:s:3:-", "ETL:ab000000:j:s:3:2.7", "etl:ab0000:j:s:3:2.7", "etl:ab000000:j:s:3:2.7.1", "etl:ab000000:J:s:3:2.7"} {
		if id, ok := n.ParseGID(bad); ok {
			t.Errorf("%q is read as %+v", bad, id)
		}
	}
}

func TestStageTable(t *testing.T) {
	a := Names{Job: "Order counts", Sink: "per user"}.StageTable()
	if !strings.HasPrefix(a, "stage_order_counts_per_user_") || CheckName(a) != nil {
		t.Error(a)
	}
	if b := (Names{Job: "order counts per", Sink: "user"}).StageTable(); a == b {
		t.Error("two sinks share", a)
	}
	if long := (Names{Job: strings.Repeat("é", 100), Sink: "x"}).StageTable(); CheckName(long) != nil {
		t.Error(long)
	}
}

func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{"a": true, "_a1$": true, "Ab": true, strings.Repeat("x", 63): true,
		"": false, "1a": false, "a b": false, `a"; drop`: false, "é": false, strings.Repeat("x", 64): false, "a.b": false} {
		if (CheckName(name) == nil) != ok {
			t.Errorf("%q: %v", name, CheckName(name))
		}
	}
	if s, n, err := SplitTable("users"); s != "public" || n != "users" || err != nil {
		t.Error(s, n, err)
	}
	if _, _, err := SplitTable("a.b.c"); err == nil {
		t.Error("three parts")
	}
}
