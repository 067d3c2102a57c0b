package torture

import (
	"context"
	"time"
)

// torment starts the worker again and again, and lets it die as it was dealt.
func (l *Life) torment(ctx context.Context) error {
	if len(l.Aims) > 0 {
		return l.dieBy(ctx, l.Aims...)
	}
	s := newSchedule(l.r, l.Points, l.Turn, l.Passes)
	for n := 0; l.Tally.Counts[kills] < int64(l.Kills) && l.OK(); n++ {
		if n > 3*l.Kills+10 {
			l.Add(Alive, "%d starts gave %d deaths only", n, l.Tally.Counts[kills])
			return nil
		}
		if l.late() {
			l.Tally.Add(notKilled, int64(l.Kills)-l.Tally.Counts[kills])
			return nil
		}
		a := s.next()
		patience := l.Patience
		if a.point == onTheWay(Fresh)[0].Name { // it does not come again
			patience = max(patience, ownerPatience)
		}
		there, err := l.die(ctx, a, patience)
		if err != nil {
			return err
		}
		if !there {
			s.miss(a)
		}
	}
	return nil
}

// toldPatience is for a death that others build on. It is not ownerPatience: broken programs
// never come to some of their points.
const toldPatience = 15 * time.Second

// dieBy lets workers die as they are told, as long as nothing is found. What comes behind
// builds on their deaths, so they have time to come there on a busy machine, too.
func (l *Life) dieBy(ctx context.Context, aims ...aim) error {
	for _, a := range aims {
		if _, err := l.die(ctx, a, max(l.Patience, toldPatience)); err != nil || !l.OK() {
			return err
		}
	}
	return nil
}

// die starts a worker, waits for its death, and notes what it left behind. It reports
// whether the worker died where it was to die; one that does not come there in time is killed.
func (l *Life) die(ctx context.Context, a aim, patience time.Duration) (there bool, err error) {
	var args []string
	if l.Before != nil {
		if args, err = l.Before(ctx, l); err != nil {
			return false, err
		}
	}
	w, err := l.Start(a.fault(), args...)
	if err != nil {
		return false, err
	}
	there = true
	if a.point == "" {
		w.Wait(a.after)
	} else if there = w.Wait(patience); !there {
		l.Tally.Add(killsMissed, 1)
		l.Tally.Add("not reached: "+a.point, 1)
		a.point = ""
	}
	if err := ctx.Err(); err != nil {
		w.Kill()
		return false, err
	}
	w.Kill()
	l.Ended(w)
	if !w.Killed() {
		l.endedByItself(w, a.point)
		return there, nil
	}
	l.killed(w)
	if a.point == "" {
		l.Tally.Add(killsRandom, 1)
	} else {
		l.Tally.Add(l.killAt(a.point), 1)
	}
	return there, nil
}

// killed counts a kill, and whether it came before the job ran.
func (l *Life) killed(w *Worker) {
	l.Tally.Add(kills, 1)
	again := w.Running() == 0
	if again {
		l.Tally.Add(killsAgain, 1)
	}
	switch {
	case l.Job.Into != "":
		l.Tally.Add(tableKills+string(l.Job.Into), 1)
		if again {
			l.Tally.Add(tableKillsAgain+string(l.Job.Into), 1)
		}
	case l.Broker.Real():
		l.Tally.Add(realKills, 1)
	default:
		l.Tally.Add(fakeKills, 1)
	}
}

// killAt is the name of the count of deaths at a point: those of a job that writes tables
// are counted apart, for every strategy.
func (l *Life) killAt(point string) string { return killedAt(l.Job.Into, point) }

func killedAt(into Strategy, point string) string {
	if into == "" {
		return killAt + point
	}
	return killAt + string(into) + "/" + point
}

// endedByItself notes an end that nobody asked for: a declared loss, or a refusal,
// where nothing can be lost is a finding of its own kind.
func (l *Life) endedByItself(w *Worker, where string) {
	if c := w.Code(); c == refusedCode || c == lostCode {
		l.Add(Honest, "a worker that was to die at %q refused or declared a loss: %s", where, w.Ended())
		return
	}
	l.Add(ExitCode, "a worker that was to die at %q ended by itself: %s", where, w.Ended())
}

// Exit codes that mean something to the harness.
const (
	refusedCode = 4 // restore refused
	lostCode    = 5 // declared data loss
	fencedCode  = 6 // another process has taken the job
)
