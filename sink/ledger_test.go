package sink

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"etl/checkpoint"
	"etl/checkpoint/memstore"
	"etl/stream"
)

// TestLedgerTellsTransactions: one whose rows were prepared again has ended.
func TestLedgerTellsTransactions(t *testing.T) {
	var told []string
	l := NewLedger(t.Context(), LedgerOptions{Clock: stream.SystemClock{}, Listener: &stream.Listener{Transaction: func(e stream.TransactionEvent) {
		told = append(told, fmt.Sprint(e.Task, " ", e.ID, " ", e.State))
	}}}, nil)
	defer l.Close()
	lane := stream.TaskID{UID: "out"}
	first, second := stream.NewCheckpointID(1, 1), stream.NewCheckpointID(1, 2)
	l.Staged(lane, []checkpoint.Committable{{Sink: "out", Checkpoint: first}}, nil)
	l.Staged(lane, []checkpoint.Committable{{Sink: "out", Checkpoint: second}}, []stream.CheckpointID{first})
	if want := []string{"out/0 1.1 prepared", "out/0 1.1 ended", "out/0 1.2 prepared"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// loser is a committer that has lost everything.
type loser struct{ Committer }

func (loser) Commit(context.Context, checkpoint.Permit, checkpoint.Committable) (Result, error) {
	return Result{Outcome: Lost, Detail: "gone"}, nil
}

// TestLossNamesItsSources: the rows that are lost come from the ranges that the checkpoint
// which published them says, in the process that prepared them as well as after a restart,
// and later checkpoints repeat these (I13).
func TestLossNamesItsSources(t *testing.T) {
	a, err := checkpoint.OpenAttempt(t.Context(), memstore.New("x"), checkpoint.AttemptOptions{World: stream.SystemWorld(nil), Holder: checkpoint.Holder{Host: "test"}})
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	l := NewLedger(t.Context(), LedgerOptions{Clock: stream.SystemClock{}, Listener: &stream.Listener{}, Committers: map[stream.UID]Committer{"out": loser{}},
		Resolved: func(stream.TaskID, stream.CheckpointID, bool) {}, Failed: func(err error) { failed <- err }}, nil)
	defer l.Close()
	id := stream.NewCheckpointID(1, 1)
	l.Staged(stream.TaskID{UID: "out"}, []checkpoint.Committable{{Sink: "out", Checkpoint: id, Rows: 4}}, nil)
	cs, _ := l.List(id)
	cs[0].Sources = []stream.Range{{Topic: "in", Partition: 2, From: 3, To: 7}}
	permit, err := a.Publish(t.Context(), &checkpoint.Metadata{Version: checkpoint.MetadataVersion, Job: "job", Lineage: a.Lineage(), ID: id, Kind: "periodic", Mode: "exactly_once", MaxParallelism: 128, Committables: cs})
	if err != nil {
		t.Fatal(err)
	}
	l.Published(permit, nil)
	if err := <-failed; stream.CodeOf(err) != "sink.lost" || !strings.Contains(err.Error(), "in/2[3,7)") {
		t.Errorf("the loss says %v", err)
	}
	if cs, _ = l.List(stream.NewCheckpointID(1, 2)); len(cs) != 1 || len(cs[0].Sources) != 1 || cs[0].Sources[0].From != 3 {
		t.Errorf("the next checkpoint says %v", cs)
	}
}
