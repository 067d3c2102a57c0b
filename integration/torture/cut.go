package torture

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// cut is a statement whose request or answer is lost on the network: the worker stands
// at before, nothing sent, or at sent, with the statement on its way.
type cut struct {
	before, sent string
	statement    string // as pg_stat_activity has it
	// told is the point by which a worker passes that lives through a lost answer.
	told string
}

// Cuts are those statements, by strategy.
var Cuts = map[Strategy][]cut{
	Prepared: {{"postgres.commit.before", "postgres.commit.sent", "COMMIT PREPARED %", "postgres.recover.marker"},
		{"postgres.prepare.before", "postgres.prepare.sent", "PREPARE TRANSACTION %", ""}},
	Staged: {{"postgres.merge.merged", "postgres.merge.sent", "COMMIT", "postgres.recover.marker"},
		{"postgres.stage.copied", "postgres.stage.sent", "COMMIT", ""}},
	Logged:     {{"wal.postgres.written", "wal.postgres.commit.sent", "COMMIT", ""}},
	Idempotent: {{"idempotent.postgres.written", "idempotent.postgres.commit.sent", "COMMIT", ""}},
}

// LoseMessages cuts the network n times at each of the strategy's statements, after the
// server has carried it out and before it got it.
func (l *Life) LoseMessages(ctx context.Context, n int) error {
	for range n {
		for _, c := range Cuts[l.Job.Into] {
			for _, lose := range []func(context.Context, cut) (bool, error){l.loseAnswer, l.loseRequest} {
				if err := l.lose(ctx, c, lose); err != nil {
					return fmt.Errorf("cut at %s: %w", c.before, err)
				}
			}
		}
	}
	return nil
}

// lose tries it a few times: where two subtasks send at once, one may be past the place at
// which the other stops the process.
func (l *Life) lose(ctx context.Context, c cut, f func(context.Context, cut) (there bool, err error)) error {
	for range 4 {
		if !l.OK() || l.late() {
			return nil
		}
		if there, err := f(ctx, c); there || err != nil {
			return err
		}
		l.Tally.Add(killsMissed, 1)
	}
	return nil
}

// loseAnswer lets the server carry a statement out and tell nobody.
func (l *Life) loseAnswer(ctx context.Context, c cut) (there bool, err error) {
	w, since, err := l.hold(ctx, c, false)
	if err != nil || w == nil {
		return false, err
	}
	defer w.Kill()
	if err := l.Tables.net.Add("timeout", "downstream", map[string]any{"timeout": 0}); err != nil {
		return false, err
	}
	w.Signal(syscall.SIGCONT)
	for begin := time.Now(); !there; {
		n, err := l.Tables.carriedOut(ctx, c, since)
		there = n > 0
		switch {
		case err != nil:
			return false, err
		case !there && time.Since(begin) > ownerPatience:
			l.Add(Alive, "the worker does not go on from %s: %s", c.before, w.Ended())
			return false, nil
		case !there && pause(ctx, 2*time.Millisecond) != nil:
			return false, context.Cause(ctx)
		}
	}
	if there, err = l.reconnect(ctx, w, c.told); there {
		l.Tally.Add(answersLost+string(l.Job.Into), 1)
	}
	return there, err
}

// loseRequest has the worker send a statement that never arrives.
func (l *Life) loseRequest(ctx context.Context, c cut) (there bool, err error) {
	w, since, err := l.hold(ctx, c, true)
	if err != nil || w == nil {
		return false, err
	}
	defer w.Kill()
	if err := l.Tables.net.Add("timeout", "upstream", map[string]any{"timeout": 0}); err != nil {
		return false, err
	}
	w.Signal(syscall.SIGCONT)
	if there = w.AwaitStopped(sentPatience); there {
		n, err := l.Tables.carriedOut(ctx, c, since)
		if err != nil {
			return false, err
		}
		if there = n == 0; there { // else the network was slower than thought
			l.Tally.Add(requestsLost+string(l.Job.Into), 1)
		}
	}
	_, err = l.reconnect(ctx, w, "")
	return there, err
}

// sentPatience is how long a worker may take from before a statement to behind it.
const sentPatience = 5 * time.Second

// hold starts a worker and returns it when it stands before the statement and the server
// has nothing to do for it; since is that moment on the server's clock. The first pass of
// sent after that is the one with the same number: before it, sent is passed less often.
func (l *Life) hold(ctx context.Context, c cut, again bool) (w *Worker, since time.Time, err error) {
	nth := 1 + l.r.IntN(6)
	plan := fmt.Sprintf("%s:%d:stop", c.before, nth)
	if again {
		plan += fmt.Sprintf(",%s:%d:stop", c.sent, nth)
	}
	if w, err = l.Start(plan); err != nil {
		return nil, since, err
	}
	if !w.AwaitStopped(ownerPatience) {
		l.Add(Alive, "the worker does not come to %s: %s", c.before, w.Ended())
		w.Kill()
		return nil, since, nil
	}
	if since, err = l.Tables.quiet(ctx); err != nil {
		w.Kill()
		return nil, since, err
	}
	return w, since, nil
}

// quiet waits until nothing is under way between the stopped job and its server, the
// network included, and returns that moment on the server's clock. A session has nothing to
// do while it waits for its client, as where the job was stopped in the middle of a COPY, or
// for a lock that another one holds.
func (d *Tables) quiet(ctx context.Context) (now time.Time, err error) {
	var last, before time.Time
	active := 1
	ctx, cancel := context.WithTimeout(ctx, ownerPatience)
	defer cancel()
	for same := false; active > 0 || !same; same = last.Equal(before) {
		before = last
		err = d.pool.QueryRow(ctx, "SELECT count(*) FILTER (WHERE state = 'active' AND coalesce(wait_event_type, '') NOT IN ('Client', 'Lock')), coalesce(max(state_change), 'epoch'), clock_timestamp() FROM pg_stat_activity WHERE datname = current_database() AND usename = $1",
			d.role).Scan(&active, &last, &now)
		if err == nil {
			err = pause(ctx, 30*time.Millisecond)
		}
		if err != nil {
			return now, err
		}
	}
	return now, nil
}

// carriedOut is how many sessions of the job have carried such a statement out since, and
// wait for what the job says next.
func (d *Tables) carriedOut(ctx context.Context, c cut, since time.Time) (n int, err error) {
	err = d.pool.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = $1 AND state = 'idle' AND query LIKE $2 AND state_change > $3",
		d.role, c.statement, since).Scan(&n)
	return n, err
}

// reconnect ends all connections and lets new ones in. The worker dies before it could
// learn of it, or has to go on; then it must have passed by a point, if one is told. If it
// has not, the answer that was lost was that of another session, whose statement reads the
// same: it does not count, and a run in which too few count fails.
func (l *Life) reconnect(ctx context.Context, w *Worker, told string) (counts bool, err error) {
	both := l.r.IntN(3) == 0
	if both {
		w.Kill()
	}
	l.Tables.net.Down()
	l.Tables.net.Reset()
	if err := l.Tables.net.Up(); err != nil {
		return false, err
	}
	if both {
		l.dead(w)
		return true, nil
	}
	w.Signal(syscall.SIGCONT)
	if err := l.livesOn(ctx, w); err != nil || told == "" {
		return err == nil, err
	}
	b, err := os.ReadFile(w.Passed)
	return strings.Contains(string(b), told+"\n"), err
}
