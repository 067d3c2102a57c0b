package torture

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// ownerPatience is for what takes a second on an idle machine, and more where a server is
// being started beside it: it runs out only where something hangs.
const ownerPatience = time.Minute

// Zombie stops a worker at a point, lets a successor take over, and wakes it again:
// it must change nothing and end with exit code 6, and the successor must be exact.
// nth counts the passes of the point.
func (l *Life) Zombie(ctx context.Context, p Point, nth int) error {
	if p.Recovers() {
		if err := l.dieBy(ctx, aim{point: inDoubt, nth: 3}); err != nil || !l.OK() {
			return err
		}
	}
	old, err := l.Start(fmt.Sprintf("%s:%d:stop", p.Name, nth))
	if err != nil {
		return err
	}
	defer old.Kill()
	if !old.AwaitStopped(ownerPatience) {
		l.Add(Alive, "the worker does not come to %s: %s", p.Name, old.Ended())
		return nil
	}
	next, err := l.Start("", "--take-over")
	if err != nil {
		return err
	}
	defer next.Kill()
	if !l.checkpoints(next, 2) {
		l.Add(Alive, "the successor of one that stopped at %s makes no checkpoints: %s", p.Name, next.Ended())
		return nil
	}
	old.Signal(syscall.SIGCONT)
	l.Tally.Add(twoOwners, 1)
	if p.Name == "recover.V1" {
		old, next = next, old // the one that was stopped had not looked yet, and takes over in its turn
	}
	l.beaten(old, p)
	if !l.checkpoints(next, 2) {
		l.Add(Alive, "the owner makes no checkpoints after the other ended: %s", next.Ended())
		return nil
	}
	fctx, cancel := context.WithTimeout(ctx, finishIn)
	defer cancel()
	if err := l.feed.Pause(fctx); err != nil || !l.OK() {
		return err
	}
	if err := l.DrainFully(fctx, next); err != nil {
		return err
	}
	return l.Audit(fctx)
}

// beaten expects the end of the process that was fenced.
func (l *Life) beaten(w *Worker, p Point) {
	if !w.Wait(ownerPatience) {
		l.Add(Owners, "the old process goes on after %s: %s", p.Name, w.Ended())
		w.Kill()
		return
	}
	l.Ended(w)
	if w.Code() != fencedCode {
		l.Add(ExitCode, "the old process, stopped at %s, ended with %d: %s", p.Name, w.Code(), w.Ended())
	}
}

// checkpoints waits until a worker has confirmed n more checkpoints.
func (l *Life) checkpoints(w *Worker, n int) bool {
	seen := 0
	for _, x := range w.Lines() {
		seen += confirmed(x)
	}
	return w.Await(ownerPatience, func() func(Line) bool {
		now := 0
		return func(x Line) bool {
			now += confirmed(x)
			return now >= seen+n
		}
	}()) != nil
}

func confirmed(x Line) int {
	if x.Msg() == "checkpoint" {
		return 1 + int(x.int("omitted"))
	}
	return 0
}
