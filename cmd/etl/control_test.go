package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
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

// impatient is a clock whose first pauses are over at once; then it calls enough. A job
// that answers does so within a glance.
type impatient struct {
	stream.SystemClock
	pauses  chan time.Duration
	enough  func()
	answers bool
}

func (c impatient) Sleep(ctx context.Context, d time.Duration) error {
	if d == glance {
		if c.answers {
			<-ctx.Done()
		}
		return ctx.Err()
	}
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
	clock := impatient{answers: true, pauses: make(chan time.Duration, 3), enough: func() {
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

// TestStopOfAStoppedProcess: a process that cannot answer keeps who asks it waiting, but not
// in the dark; nor does it who has enough of that.
func TestStopOfAStoppedProcess(t *testing.T) {
	file, dir := waits(t), t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "waits"), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "waits", "control.1.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errs bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &out, err: &errs, world: stream.SystemWorld(nil)}
	a.world.Clock = impatient{pauses: make(chan time.Duration, 2), enough: cancel}
	root := a.root()
	root.SetArgs([]string{"stop", file, "--data-dir", dir})
	if err := root.ExecuteContext(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	const mute, given = "stop: still waiting; the job does not answer\n", "stop: not waited for any more; the job was asked, and may do it all the same\n"
	if s := errs.String(); s != mute+mute+given {
		t.Errorf("it says %s", s)
	}
}

// TestPrintable: nothing that somebody wrote into a record reaches the terminal as a command.
func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"plain, größer\ttab\n": "plain, größer\ttab\n",
		"\x1b[2Jgone":          `"\x1b[2Jgone"`,
		"a\rb":                 `"a\rb"`,
		"\u009b31m":            `"\u009b31m"`,
		"a\u202eb":             `"a\u202eb"`,
	} {
		if got := printable(text); got != want {
			t.Errorf("%q is shown as %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]string{"it is größer": "it is größer", "no\n0@9": `"no\n0@9"`, "a\tb": `"a\tb"`} {
		if got := cell(text); got != want {
			t.Errorf("%q is shown as %s in a line, want %s", text, got, want)
		}
	}
}
