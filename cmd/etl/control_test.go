package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etl/internal/control"
	"etl/pipeline"
	"etl/stream"
)

// stuck is a job that cannot make its final checkpoint.
type stuck struct {
	pipeline.Controller
	asked chan struct{}
}

func (j stuck) Stop() { close(j.asked) }

func (stuck) Status() pipeline.Status {
	return pipeline.Status{Phase: "running", Attempt: 1, Published: stream.NewCheckpointID(1, 8), Failing: 3, Error: "no space left on device"}
}

// impatient is a clock whose first pauses are over at once; then it calls enough.
type impatient struct {
	stream.SystemClock
	pauses chan time.Duration
	enough func()
}

func (c impatient) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case c.pauses <- d:
		return nil
	default:
		c.enough()
		<-ctx.Done()
		return ctx.Err()
	}
}

// TestStopSaysWhatItWaitsFor: who stops a job hears what keeps it from ending, more and
// more rarely, and how to end it all the same.
func TestStopSaysWhatItWaitsFor(t *testing.T) {
	file, dir := waits(t), t.TempDir()
	j := stuck{asked: make(chan struct{})}
	job := control.NewServer(j, filepath.Join(dir, "waits"), t.Logf)
	if err := job.Listen(1); err != nil {
		t.Fatal(err)
	}
	clock := impatient{pauses: make(chan time.Duration, 3), enough: func() {
		<-j.asked
		job.Ended(nil)
	}}
	var out, errs bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &out, err: &errs, world: stream.SystemWorld(nil)}
	a.world.Clock = clock
	root := a.root()
	root.SetArgs([]string{"stop", file, "--data-dir", dir})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
		if got := <-clock.pauses; got != want {
			t.Errorf("a pause of %v, want %v", got, want)
		}
	}
	if s := errs.String(); !strings.Contains(s, "stop: still waiting; running  attempt 1  restored -  published 1.8") || !strings.Contains(s, "no space left on device") || !strings.Contains(s, "without a final checkpoint: etl cancel") {
		t.Errorf("it says %s", s)
	}
	if s := out.String(); !strings.Contains(s, "stopped at checkpoint") {
		t.Errorf("it prints %s", s)
	}
}

// TestPrintable: nothing that somebody wrote into a record reaches the terminal as a command.
func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"plain, größer\ttab\n": "plain, größer\ttab\n",
		"\x1b[2Jgone":          `"\x1b[2Jgone"`,
		"a\rb":                 `"a\rb"`,
		"\u009b31m":            `"\u009b31m"`,
	} {
		if got := printable(text); got != want {
			t.Errorf("%q is shown as %s, want %s", text, got, want)
		}
	}
}
