package sink

import (
	"fmt"
	"slices"
	"testing"

	"etl/checkpoint"
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
