package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"etl/checkpoint"
	"etl/stream"
)

const (
	// backendCheckEvery is how often background failures of the state backend are
	// looked for.
	backendCheckEvery = time.Second
	// endOwnTimeout bounds the clean-up of a cancelled job, commitOwnTimeout its
	// first part, the commits.
	endOwnTimeout    = 30 * time.Second
	commitOwnTimeout = 15 * time.Second
)

// Job runs a graph: attempt after attempt, until it is finished, stopped,
// cancelled, or fails for good.
type Job struct {
	graph  *Graph
	layout *layout
	o      Options

	// Of the goroutine of Run: whether the log was looked at, and the newest attempt
	// that was there when it was.
	looked   bool
	followed stream.Attempt

	stopping, cancelled atomic.Bool
	cancel              context.CancelCauseFunc

	mu      sync.Mutex
	runner  *checkpoint.Runner
	status  Status
	newest  stream.CheckpointID // triggered
	changed chan struct{}       // closed and replaced when status changes
}

var _ Controller = (*Job)(nil)

// NewJob checks a graph and its options, and returns the job. All problems are
// returned at once, joined.
func NewJob(g *Graph, o Options) (*Job, error) {
	o = o.withDefaults()
	if errs := append(g.Validate(), o.Policy.Problems()...); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	l, err := newLayout(g)
	if err != nil {
		return nil, err
	}
	j := &Job{graph: g, layout: l, o: o, changed: make(chan struct{}), cancel: func(error) {}}
	j.status.Job = g.Name
	j.listen(o.Listener)
	return j, nil
}

// listen puts the job in front of the listener, to keep its status.
func (j *Job) listen(to *stream.Listener) {
	l := &stream.Listener{}
	if to != nil {
		*l = *to
	}
	l.Checkpoint = func(e stream.CheckpointEvent) {
		j.update(func(s *Status) { j.note(s, e) })
		to.OnCheckpoint(e)
	}
	j.o.Listener = l
}

func (j *Job) note(s *Status, e stream.CheckpointEvent) {
	switch e.Phase {
	case "triggered":
		j.newest = e.ID
	case "aborted":
		s.Failing++
		if e.Err != nil {
			s.Error = e.Err.Error()
		}
	case "published":
		s.Published, s.Failing, s.Error = e.ID, 0, ""
	case "confirmed":
		s.Confirmed = e.ID
	}
}

// update changes the status and wakes those who wait for a change.
func (j *Job) update(f func(*Status)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f(&j.status)
	close(j.changed)
	j.changed = make(chan struct{})
}

// Run works until the job is finished, stopped or cancelled (nil), or fails. ctx
// ends it at once, like a crash without the kill: use Stop for a clean end.
func (j *Job) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	j.mu.Lock()
	j.cancel = cancel
	j.mu.Unlock()
	if j.cancelled.Load() {
		cancel(errCancelled)
	}
	unlock, err := j.lock(ctx)
	if errors.Is(err, errCancelled) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	err = j.attempts(ctx)
	if errors.Is(err, errCancelled) {
		err = nil // it is no error to have cancelled a job
	}
	j.ended(err)
	return err
}

// lock refuses an accidental second start; the log is what decides (I4).
func (j *Job) lock(ctx context.Context) (unlock func() error, err error) {
	unlock, held, err := j.o.Storage.Lock(ctx, j.o.Holder, j.o.TakeOver)
	switch {
	case err != nil:
		return nil, fmt.Errorf("lock %s: %w", j.o.Storage.URL(), err)
	case held != nil && !j.o.TakeOver:
		return nil, stream.Errorf(stream.Fenced, "job.held", "start", j.graph.Name, "the job is held by %s, pid %d, attempt %d, since %s", held.Host, held.PID, held.Attempt, held.Since).
			WithFix("stop that process first, or fence it with --take-over")
	}
	if unlock == nil {
		unlock = func() error { return nil }
	}
	return unlock, nil
}

// attempts runs one attempt after the other while their errors allow it.
func (j *Job) attempts(ctx context.Context) error {
	pause := j.o.Restart.Initial
	for restarts := 0; ; restarts++ {
		began := j.o.World.Clock.Now()
		err := j.runAttempt(ctx)
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, onlyCancel(ctx))
		}
		if c := stream.ClassOf(err); c != stream.Restart && c != stream.Retry {
			return err
		}
		if n := j.o.Restart.Attempts; n == NoRestart || n > 0 && restarts >= n {
			return fmt.Errorf("after %d restarts: %w", restarts, err)
		}
		if j.o.World.Clock.Now().Sub(began) >= j.o.Restart.ResetAfter {
			pause = j.o.Restart.Initial
		}
		j.phase("restarting", err)
		if err := j.o.World.Clock.Sleep(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, j.o.Restart.Max)
		j.update(func(s *Status) { s.Restarts++ })
	}
}

// onlyCancel is the cause when it is a cancellation.
func onlyCancel(ctx context.Context) error {
	if err := context.Cause(ctx); errors.Is(err, errCancelled) {
		return err
	}
	return nil
}

// phase tells the world what the job does now. What has kept checkpoints from being
// published stays in the status until one is. A job that has ended does not drain.
func (j *Job) phase(p string, err error) {
	late := false
	j.update(func(s *Status) {
		if late = p == "draining" && s.ended(); late {
			return
		}
		s.Phase = p
		switch {
		case err != nil:
			s.Error = err.Error()
		case s.Failing == 0:
			s.Error = ""
		}
	})
	if late {
		return
	}
	s := j.Status()
	j.o.Listener.OnJob(stream.JobEvent{Phase: p, Attempt: s.Attempt, Restored: s.Restored, Err: err, At: j.o.World.Clock.Now()})
}

// ended reports whether the job has.
func (s *Status) ended() bool {
	return s.Phase == "stopped" || s.Phase == "failed" || s.Phase == "fenced"
}

func (j *Job) ended(err error) {
	switch {
	case err == nil:
		j.phase("stopped", nil)
	case stream.ClassOf(err) == stream.Fenced:
		j.phase("fenced", err)
	default:
		j.phase("failed", err)
	}
}

// opened notes who this attempt is.
func (j *Job) opened(l *checkpoint.Attempt) {
	j.update(func(s *Status) { s.Attempt, s.Lineage = l.Number(), l.Lineage() })
}

// started notes that the attempt's tasks run, and passes on a Stop that came
// before. What the job was told about where to begin has been done by then: a
// restart goes on from the newest checkpoint.
func (j *Job) started(a *attempt) {
	j.o.Restore.From, j.o.Restore.Empty, j.o.Restore.AcceptDuplicates = stream.NoCheckpoint, false, false
	j.mu.Lock()
	j.runner = a.runner
	j.mu.Unlock()
	if a.restored != nil {
		j.update(func(s *Status) { s.Restored = a.restored.ID })
	}
	j.phase("running", nil)
	if j.stopping.Load() {
		j.phase("draining", nil)
		go a.runner.Stop()
	}
}

// Stop asks for the final checkpoint and the end of the job.
func (j *Job) Stop() {
	j.stopping.Store(true)
	if r := j.current(); r != nil {
		j.phase("draining", nil)
		r.Stop()
	}
}

// Cancel ends the job without a checkpoint, and its open transactions.
func (j *Job) Cancel() {
	j.cancelled.Store(true)
	j.mu.Lock()
	cancel := j.cancel
	j.mu.Unlock()
	cancel(errCancelled)
}

func (j *Job) current() *checkpoint.Runner {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.runner
}

// Status describes the job.
func (j *Job) Status() Status {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.status
}

// Checkpoint triggers a checkpoint and waits until one that began after the call
// is confirmed.
func (j *Job) Checkpoint(ctx context.Context) (stream.CheckpointID, error) {
	j.mu.Lock()
	before, r := j.newest, j.runner
	j.mu.Unlock()
	if r == nil {
		return 0, stream.Errorf(stream.Retry, "job.not_running", "checkpoint", j.graph.Name, "the job is not running yet")
	}
	r.Trigger("asked for")
	for {
		j.mu.Lock()
		s, changed := j.status, j.changed
		j.mu.Unlock()
		if s.Confirmed > before {
			return s.Confirmed, nil
		}
		if s.ended() {
			return 0, stream.Errorf(stream.Retry, "job.not_running", "checkpoint", j.graph.Name, "the job has ended")
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}
