package torture

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

// BigState is a job whose keyed state is larger than its memory: so many keys of
// about Wide times ten bytes, with a budget of Memory.
type BigState struct {
	Memory     string
	Keys, Wide int
	// Second is how many records come after every key was there once.
	Second int
}

// Run fills the state while workers die, then changes a part of it, loses the local
// base as a machine does that is replaced, and checks every count.
func (s BigState) Run(ctx context.Context, e *Episode) (*Tally, Verdict, error) {
	e.Job.Kind, e.Job.Memory, e.Job.Wide = Count, s.Memory, s.Wide
	e.Keys, e.Spread, e.Rate, e.Scrape = s.Keys, true, 50, true
	e.Patience, e.EndIn = 40*time.Second, 4*time.Minute
	l, err := e.Begin(ctx)
	if err != nil {
		return NewTally(), Verdict{}, err
	}
	defer l.Close()
	if err := s.live(ctx, l); err != nil {
		return l.Tally, *l.Verdict, err
	}
	return l.Tally, *l.Verdict, l.Finish(ctx)
}

func (s BigState) live(ctx context.Context, l *Life) error {
	if err := l.feed.Burst(ctx, s.Keys); err != nil {
		return err
	}
	// The first has a base that knows of no checkpoint: it is discarded.
	if err := l.dieAt(ctx, "state.apply.begun", "state.apply.batch", "K09-before-links", "K10-base-file-uploaded", "K12-base-uploaded"); err != nil || !l.OK() {
		return err
	}
	if err := l.untilRead(ctx, "base of keyed state materialized"); err != nil || !l.OK() {
		return err
	}
	if err := l.feed.Burst(ctx, s.Second); err != nil {
		return err
	}
	if err := l.dieAt(ctx, "state.apply.done", inDoubt); err != nil || !l.OK() {
		return err
	}
	if err := l.loseLocalState(); err != nil {
		return err
	}
	if err := l.dieAt(ctx, "K49-base-loaded", "K49-segment-replayed"); err != nil || !l.OK() {
		return err
	}
	return l.untilRead(ctx, "")
}

// dieAt lets a worker die at each of the points, in as many tries as it takes, up to 3.
func (l *Life) dieAt(ctx context.Context, points ...string) error {
	for _, name := range points {
		for range 3 {
			there, err := l.die(ctx, aim{point: name, nth: 1}, l.Patience)
			if err != nil || !l.OK() {
				return err
			}
			if there {
				break
			}
		}
	}
	return nil
}

// untilRead lets a worker read everything, and say a message if one is given, and
// kills it some checkpoints later.
func (l *Life) untilRead(ctx context.Context, said string) error {
	w, err := l.Start("")
	if err != nil {
		return err
	}
	defer w.Kill()
	rctx, cancel := context.WithTimeout(ctx, l.EndIn)
	defer cancel()
	ends, err := l.Broker.ends(rctx, false, l.job.In())
	if err != nil {
		return err
	}
	if err := l.job.awaitAt(rctx, w, ends); err != nil {
		l.Add(Alive, "%v", err)
		return nil
	}
	if said != "" && w.Await(l.Patience, func(x Line) bool { return x.Msg() == said }) == nil {
		l.Add(Alive, "the worker does not say %q: %s", said, w.Ended())
	}
	if !l.checkpoints(w, 2) {
		l.Add(Alive, "no checkpoints: %s", w.Ended())
	}
	w.Kill()
	l.dead(w)
	return nil
}

// loseLocalState removes the folder of the local base: what is left is in the
// checkpoints.
func (l *Life) loseLocalState() error {
	dirs, err := filepath.Glob(filepath.Join(l.job.Dir, "state*"))
	if err != nil {
		return err
	}
	for _, d := range dirs {
		if err := os.RemoveAll(d); err != nil {
			return err
		}
	}
	l.Tally.Add("local states lost", int64(len(dirs)))
	return nil
}
