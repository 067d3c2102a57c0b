package checkpoint

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"etl/stream"
)

// TestAligner tells the aligner's stories (testdata/aligner).
func TestAligner(t *testing.T) {
	datadriven.Walk(t, "testdata/aligner", func(t *testing.T, path string) {
		var a *Aligner
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) (out string) {
			defer func() {
				if r := recover(); r != nil {
					out = fmt.Sprintf("panic: %v\n", r)
				}
			}()
			var input, inputs int
			var id string
			d.MaybeScanArgs(t, "input", &input)
			d.MaybeScanArgs(t, "inputs", &inputs)
			d.MaybeScanArgs(t, "id", &id)
			cid, _ := stream.ParseCheckpointID(id)
			switch d.Cmd {
			case "new":
				a = NewAligner(inputs, !d.HasArg("at-least-once"))
				return ""
			case "barrier":
				return tellActions(a.Step(BarrierOn{Input: input, Barrier: stream.Barrier{ID: cid}}))
			case "cancel":
				return tellActions(a.Step(Cancelled{ID: cid}))
			}
			t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
			return ""
		})
	})
}

func tellActions(actions []Action) string {
	var b strings.Builder
	for _, a := range actions {
		switch a := a.(type) {
		case Block:
			fmt.Fprintf(&b, "block %d\n", a.Input)
		case Unblock:
			fmt.Fprintf(&b, "unblock\n")
		case Snapshot:
			fmt.Fprintf(&b, "snapshot %s\n", a.Barrier.ID)
		}
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

// TestAlignerCutsExactly lets random streams with random cancellations run
// through an aligner as a task would, and checks that each snapshot covers, on
// every input, exactly the elements before its barrier (I2).
func TestAlignerCutsExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inputs := rapid.IntRange(1, 4).Draw(t, "inputs")
		a := NewAligner(inputs, true)
		// Each input is a run of records (0) with the barriers 1, 2, ... in between.
		queues := make([][]int, inputs)
		barriers := rapid.IntRange(1, 5).Draw(t, "barriers")
		for i := range queues {
			for b := 1; b <= barriers; b++ {
				for range rapid.IntRange(0, 3).Draw(t, "records") {
					queues[i] = append(queues[i], 0)
				}
				queues[i] = append(queues[i], b)
			}
		}
		passed := make([]int, inputs) // the last barrier each input's records lie behind
		blocked := make([]bool, inputs)
		cancelled := stream.NoCheckpoint
		act := func(actions []Action) {
			for _, x := range actions {
				switch x := x.(type) {
				case Block:
					blocked[x.Input] = true
				case Unblock:
					clear(blocked)
				case Snapshot:
					if x.Barrier.ID <= cancelled {
						t.Fatalf("snapshot %s after it was cancelled", x.Barrier.ID)
					}
					for i, p := range passed {
						if stream.NewCheckpointID(1, uint32(p)) != x.Barrier.ID {
							t.Fatalf("snapshot %s cuts input %d behind barrier %d", x.Barrier.ID, i, p)
						}
					}
				}
			}
		}
		for {
			var free []int
			for i := range queues {
				if !blocked[i] && len(queues[i]) > 0 {
					free = append(free, i)
				}
			}
			if len(free) == 0 {
				break
			}
			i := rapid.SampledFrom(free).Draw(t, "input")
			el := queues[i][0]
			queues[i] = queues[i][1:]
			if el > 0 {
				passed[i] = el
				act(a.Step(BarrierOn{Input: i, Barrier: stream.Barrier{ID: stream.NewCheckpointID(1, uint32(el))}}))
			}
			if cur := a.Aligning().ID; cur != stream.NoCheckpoint && rapid.IntRange(0, 9).Draw(t, "cancel") == 0 {
				cancelled = cur
				act(a.Step(Cancelled{ID: cur}))
			}
		}
		for i := range queues {
			if len(queues[i]) > 0 {
				t.Fatalf("input %d stays blocked for ever", i)
			}
		}
	})
}
