package torture

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// mortal is a server under a job that can be killed and comes back with its data.
type mortal struct {
	name          string // in messages
	kill, restart func(context.Context) error
	kills, aimed  string // the counts of deaths, and of those where it hurts
}

// serverAim is where the worker stands when its server dies.
type serverAim struct {
	point string // the worker stops there first; "" for any time
	late  time.Duration
	hurts bool // counted as aimed
}

// KillServer kills a server n times under a running worker, which has to live through
// it, or is killed with it.
func (l *Life) KillServer(ctx context.Context, m *mortal, n int, aims []serverAim) error {
	for i := range n {
		if !l.OK() || l.late() {
			return nil
		}
		if err := l.killServer(ctx, m, aims[(l.Turn+i)%len(aims)]); err != nil {
			return err
		}
	}
	return nil
}

func (l *Life) killServer(ctx context.Context, m *mortal, a serverAim) error {
	w, err := l.Start(l.stopAt(a))
	if err != nil {
		return err
	}
	defer w.Kill()
	if !l.underWay(w, a) {
		return nil
	}
	if err := pause(ctx, time.Duration(l.r.Int64N(int64(a.late)+1))); err != nil {
		return err
	}
	if err := m.kill(ctx); err != nil {
		return fmt.Errorf("kill the %s: %w", m.name, err)
	}
	l.Tally.Add(m.kills, 1)
	if a.hurts {
		l.Tally.Add(m.aimed, 1)
	}
	both := l.r.IntN(2) == 0
	if both {
		w.Kill()
		l.dead(w)
	} else {
		w.Signal(syscall.SIGCONT)
	}
	if err := m.restart(ctx); err != nil {
		return err
	}
	if both {
		return nil
	}
	return l.livesOn(ctx, w)
}

// stopAt is the plan with which a worker stands still where it is wanted.
func (l *Life) stopAt(a serverAim) string {
	if a.point == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d:stop", a.point, 3+l.r.IntN(6))
}

// underWay waits until the server may die.
func (l *Life) underWay(w *Worker, a serverAim) bool {
	if a.point != "" {
		if w.AwaitStopped(ownerPatience) {
			return true
		}
		l.Add(Alive, "the worker does not come to %s: %s", a.point, w.Ended())
		return false
	}
	if !w.AwaitRunning(ownerPatience) {
		l.Add(Alive, "the worker does not run: %s", w.Ended())
		return false
	}
	time.Sleep(time.Duration(100+l.r.IntN(500)) * time.Millisecond)
	return true
}

// backPatience is how long a worker whose server was away may take to a checkpoint.
const backPatience = 90 * time.Second

// livesOn expects a checkpoint of a worker whose server was away, and kills it.
func (l *Life) livesOn(ctx context.Context, w *Worker) error {
	back := time.Now()
	ok := func(x Line) bool {
		at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(x.Fields["time"]))
		return x.Msg() == "checkpoint" && err == nil && at.After(back)
	}
	if w.Await(backPatience, ok) == nil && running(w) {
		l.Add(Alive, "no checkpoint in %v after the server came back: %s", backPatience, w.Ended())
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	w.Kill()
	l.dead(w)
	return nil
}

// dead notes a worker that the harness killed at a time of its own choice.
func (l *Life) dead(w *Worker) {
	l.Ended(w)
	if !w.Killed() {
		l.endedByItself(w, "when the harness kills it")
		return
	}
	l.killed(w)
	l.Tally.Add(killsOther, 1)
}
