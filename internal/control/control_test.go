package control

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"etl/pipeline"
	"etl/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// job is a job that is asked. What it is asked for comes out of asked.
type job struct {
	asked  chan string
	status pipeline.Status
}

func (j *job) Stop()                   { j.asked <- "stop" }
func (j *job) Cancel()                 { j.asked <- "cancel" }
func (j *job) Status() pipeline.Status { return j.status }
func (j *job) Checkpoint(context.Context) (stream.CheckpointID, error) {
	return stream.NoCheckpoint, errors.New("it cannot now")
}

type answer struct {
	Reply
	err error
}

func askFor(t *testing.T, clock stream.Clock, dir, what string) chan answer {
	t.Helper()
	answers := make(chan answer, 1)
	go func() {
		r, err := Ask(t.Context(), clock, dir, what)
		answers <- answer{r, err}
	}()
	return answers
}

func serve(t *testing.T, dir string) (*job, *Server) {
	t.Helper()
	j := &job{asked: make(chan string, 10)}
	s := NewServer(j, dir, t.Logf)
	if err := s.Listen(1); err != nil {
		t.Fatal(err)
	}
	return j, s
}

// Who asks a job to stop hears of its end, though attempts end and begin meanwhile.
func TestAnswerComesFromALaterAttempt(t *testing.T) {
	dir := t.TempDir()
	j, s := serve(t, dir)
	answers := askFor(t, stream.SystemClock{}, dir, "stop")
	for a := stream.Attempt(2); a < 4; a++ {
		<-j.asked
		if err := s.Listen(a); err != nil {
			t.Fatal(err)
		}
	}
	<-j.asked
	j.status.Published = stream.NewCheckpointID(3, 7)
	s.Ended(nil)
	if got := <-answers; got.err != nil || !got.OK || got.Checkpoint != j.status.Published || got.Attempt != 3 {
		t.Errorf("%+v", got)
	}
}

// hurried is a clock in which nobody waits.
type hurried struct{ stream.SystemClock }

func (hurried) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// A process that was asked and is gone is told apart from one that was never there.
func TestNobodyAnswers(t *testing.T) {
	dir := t.TempDir()
	if _, err := Ask(t.Context(), hurried{}, dir, "stop"); stream.CodeOf(err) != "control.not_running" {
		t.Error(err)
	}
	j, s := serve(t, dir)
	answers := askFor(t, hurried{}, dir, "cancel")
	<-j.asked
	s.close()
	if got := <-answers; stream.CodeOf(got.err) != "control.lost" {
		t.Errorf("%+v", got)
	}
}

// Who cancels a job hears where the next run goes on: not at what is confirmed, but at
// what is published, or at where this run began.
func TestWhereTheNextRunGoesOn(t *testing.T) {
	began, confirmed, published := stream.NewCheckpointID(1, 4), stream.NewCheckpointID(2, 7), stream.NewCheckpointID(2, 8)
	for want, status := range map[stream.CheckpointID]pipeline.Status{
		stream.NoCheckpoint: {},
		began:               {Restored: began},
		published:           {Restored: began, Published: published, Confirmed: confirmed},
	} {
		dir := t.TempDir()
		j, s := serve(t, dir)
		answers := askFor(t, stream.SystemClock{}, dir, "cancel")
		<-j.asked
		j.status = status
		s.Ended(nil)
		if got := <-answers; got.err != nil || got.Checkpoint != want {
			t.Errorf("of %+v: %+v", status, got)
		}
	}
}

// Who listens and never gives an answer is asked for a while, not for ever: it is no
// process of this program.
func TestSomebodyElseAnswers(t *testing.T) {
	dir := t.TempDir()
	_, s := serve(t, dir)
	s.http.Handler = http.NotFoundHandler()
	if _, err := Ask(t.Context(), hurried{}, dir, "status"); stream.CodeOf(err) != "control.lost" {
		t.Error(err)
	}
	s.Ended(nil)
}

// A job is found whatever its folder is called, and however long the path and the number
// of the attempt are.
func TestFolders(t *testing.T) {
	long := filepath.Join(t.TempDir(), "x")
	for name, dir := range map[string]string{
		"a pattern":                            filepath.Join(t.TempDir(), "[a]*"),
		"too long":                             filepath.Join(t.TempDir(), strings.Repeat("x", maxPath)),
		"too long for attempts from 10 on":     long + strings.Repeat("x", maxPath-len(filepath.Join(long, "control.9.sock"))),
		"too long for attempts from 1000 on":   long + strings.Repeat("x", maxPath-len(filepath.Join(long, "control.999.sock"))),
		"too long only for attempts above all": long + strings.Repeat("x", maxPath-len(filepath.Join(long, "control.4294967294.sock"))),
	} {
		_, s := serve(t, dir)
		for _, a := range []stream.Attempt{1, 9, 10, 1234, 1<<32 - 1} {
			if err := s.Listen(a); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if r, err := Ask(t.Context(), hurried{}, dir, "status"); err != nil || r.Attempt != a {
				t.Errorf("%s, attempt %d: %+v, %v", name, a, r, err)
			}
		}
		s.Ended(nil)
	}
}

// What the job cannot do is its answer, not a lost one.
func TestRefusal(t *testing.T) {
	dir := t.TempDir()
	_, s := serve(t, dir)
	r, err := Ask(t.Context(), stream.SystemClock{}, dir, "checkpoint")
	if err != nil || r.OK || r.Error != "it cannot now" || r.Attempt != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	s.Ended(nil)
}
