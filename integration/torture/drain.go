package torture

import (
	"context"
	"path/filepath"
	"syscall"
	"time"
)

// finishIn is how long a job may take to drain and stop, and its output to be checked.
const finishIn = 5 * time.Minute

// Finish ends the feed, lets the job drain and stop by itself, and checks all.
func (l *Life) Finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, finishIn)
	defer cancel()
	if err := l.feed.Pause(ctx); err != nil {
		return err
	}
	if !l.OK() {
		return nil // it cannot be trusted to end
	}
	if l.Broker.fake != nil {
		if err := l.Broker.Tell("calm"); err != nil {
			return err
		}
	}
	w, err := l.Start("")
	if err != nil {
		return err
	}
	if err := l.DrainFully(ctx, w); err != nil {
		return err
	}
	return l.Audit(ctx)
}

// DrainFully drains, and does so again with a new worker when the attempt that took
// the final checkpoint was not the one that had read everything: a stop does not
// wait for the end of the input.
func (l *Life) DrainFully(ctx context.Context, w *Worker) error {
	for range 5 {
		l.Drain(ctx, w)
		if !l.OK() {
			return nil
		}
		behind, err := l.behind(ctx)
		if err != nil || !behind {
			return err
		}
		l.Tally.Add("stops before the end of the input", 1)
		if w, err = l.Start(""); err != nil {
			return err
		}
	}
	l.Add(Alive, "the job never stops at the end of its input")
	return nil
}

// behind reports whether the newest checkpoint stands before the end of the input.
func (l *Life) behind(ctx context.Context) (bool, error) {
	at, err := l.offsets(ctx, "")
	if err != nil {
		return false, err
	}
	ends, err := l.Broker.ends(ctx, false, l.job.In())
	for s, end := range ends {
		if at[s.part] < end {
			return true, err
		}
	}
	return false, err
}

// Drain waits until a worker has read everything, stops it, and expects success.
func (l *Life) Drain(ctx context.Context, w *Worker) {
	rctx, cancel := context.WithTimeout(ctx, l.EndIn)
	defer cancel()
	if err := l.job.AwaitRead(rctx, w); err != nil {
		l.Add(Alive, "%v", err)
		w.Kill()
		l.Ended(w)
		if !w.Killed() {
			l.endedByItself(w, "the end of its input")
		}
		return
	}
	w.Signal(syscall.SIGTERM)
	if !w.Wait(l.EndIn) {
		l.Add(Alive, "the worker does not stop: %s", filepath.Base(w.Log))
		w.Kill()
	} else if w.Code() != 0 {
		l.Add(ExitCode, "the worker was stopped in order and ended with %d: %s", w.Code(), w.Ended())
	}
	l.Ended(w)
}
