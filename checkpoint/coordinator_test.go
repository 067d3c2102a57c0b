package checkpoint

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"etl/stream"
)

// TestCoordinator tells the coordinator's stories: each file in
// testdata/coordinator is one, its commands are events at a time, its output is
// what the coordinator answers.
func TestCoordinator(t *testing.T) {
	datadriven.Walk(t, "testdata/coordinator", func(t *testing.T, path string) {
		var c *Coordinator
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "new" {
				c = newStoryCoordinator(t, d)
				return ""
			}
			return tell(c.Step(storyEvent(t, d)))
		})
	})
}

func newStoryCoordinator(t *testing.T, d *datadriven.TestData) *Coordinator {
	p := Policy{Interval: 10 * time.Second, MinPause: time.Second, Timeout: 30 * time.Second, TolerableFailures: 1}
	tasks, sources := "src/0 agg/0 out/0", "src/0"
	for _, a := range d.CmdArgs {
		switch v := strings.Join(a.Vals, " "); a.Key {
		case "interval":
			p.Interval = duration(t, v)
		case "timeout":
			p.Timeout = duration(t, v)
		case "min-pause":
			p.MinPause = duration(t, v)
		case "max-concurrent":
			p.MaxConcurrent, p.MinPause = 2, 0
		case "tolerable":
			_, _ = fmt.Sscan(v, &p.TolerableFailures)
		case "mode":
			p.Mode = Mode(v)
		case "tasks":
			tasks = v
		case "sources":
			sources = v
		}
	}
	return NewCoordinator(p.WithDefaults(), 1, taskIDs(t, tasks), taskIDs(t, sources), time.Unix(0, 0))
}

func duration(t *testing.T, s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func taskIDs(t *testing.T, s string) (out []stream.TaskID) {
	for _, f := range strings.Fields(s) {
		id, err := parseLane(f)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, id)
	}
	return out
}

// storyEvent reads one command: its name, the time, and what else it needs.
func storyEvent(t *testing.T, d *datadriven.TestData) Event {
	var at, task, id string
	d.MaybeScanArgs(t, "at", &at)
	d.MaybeScanArgs(t, "task", &task)
	d.MaybeScanArgs(t, "id", &id)
	now := time.Unix(0, 0).Add(duration(t, at))
	var tid stream.TaskID
	if task != "" {
		tid = taskIDs(t, task)[0]
	}
	var cid stream.CheckpointID
	if id != "" {
		var err error
		if cid, err = stream.ParseCheckpointID(id); err != nil {
			t.Fatal(err)
		}
	}
	switch d.Cmd {
	case "tick":
		return Tick{now}
	case "trigger":
		return Trigger{At: now}
	case "ack":
		return Acked{At: now, Task: tid, ID: cid, More: d.HasArg("more")}
	case "decline":
		return Declined{At: now, Task: tid, ID: cid, Reason: UploadFailed, Err: errors.New("disk full")}
	case "append-declined":
		return AppendDeclined{At: now, ID: cid, Err: errors.New("not now")}
	case "published":
		return Published{At: now, ID: cid}
	case "confirmed":
		return Confirmed{At: now, ID: cid}
	case "source-ended":
		return SourceEnded{At: now, Task: tid}
	case "stop":
		return StopRequested{At: now}
	}
	t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	return nil
}

// tell words effects, one to a line.
func tell(effects []Effect) string {
	var b strings.Builder
	for _, e := range effects {
		switch e := e.(type) {
		case Inject:
			fmt.Fprintf(&b, "inject %s barrier %s\n", e.Barrier.Kind, e.Barrier.ID)
		case Publish:
			fmt.Fprintf(&b, "publish %s\n", e.ID)
		case Abort:
			fmt.Fprintf(&b, "abort %s: %s at %s: %v (%d of %d)\n", e.ID, e.Reason, e.Task, e.Err, e.Failures, e.Tolerable)
		case Complete:
			fmt.Fprintf(&b, "complete %s\n", e.ID)
		case Fail:
			fmt.Fprintf(&b, "fail (%s): %v\n", stream.ClassOf(e.Err), e.Err)
		case Finish:
			fmt.Fprintf(&b, "finish\n")
		}
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}
