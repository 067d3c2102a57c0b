package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// declines aborts one of three checkpoints after every sink has prepared. Where it
// begins is drawn for every start: most workers die young.
func declines(r *rand.Rand) string {
	var s []string
	for n := 1 + r.IntN(3); n < 30; n += 3 {
		s = append(s, fmt.Sprintf("checkpoint.append.declined:%d:error", n))
	}
	return strings.Join(s, ",")
}

// Episode is the life of one job under torture.
type Episode struct {
	Broker *Broker
	Binary string
	Seed   uint64
	Kills  int
	Job    JobConfig
	// Points are those to kill at, from the Turn-th on.
	Points []Point
	Turn   int
	// Passes is up to which pass of a point a death may wait; default 4.
	Passes int
	// Keys is the number of keys, Rate the records per second; 0 for the usual.
	// Spread gives records the keys in turn.
	Keys   int
	Rate   float64
	Spread bool
	// Outs is the number of partitions of the sinks' topics; default 3.
	Outs int
	// Faults are planned in every start, beside the death and the abort of one of
	// three checkpoints, which NoDeclines leaves out.
	Faults     string
	NoDeclines bool
	// Broken are the rules that the worker breaks.
	Broken string
	// Patience is how long a worker may take to reach its death.
	Patience time.Duration
	// EndIn is how long the job may take to read the rest, and then to stop.
	EndIn time.Duration
	// Before is called before every start that is to end in a death, and may add
	// arguments; nil for nothing.
	Before func(ctx context.Context, l *Life) (args []string, err error)
	// Scrape reads the metrics of workers all the time: for what no log says.
	Scrape bool
	// Quiet pauses the feed before a stopped process goes on: it has nothing to do
	// then but what it stood before.
	Quiet bool
	// Scratch restores every retained checkpoint into a scratch job at the end.
	Scratch bool
	// Dir is where the job lies; it is removed when all is well.
	Dir string
}

// Life is an episode while it goes on.
type Life struct {
	*Episode
	*Verdict
	Tally *Tally
	job   *Job
	maker *maker
	feed  *Feed
	watch *Watch
	r     *rand.Rand
}

func (e *Episode) defaults() {
	set := func(p *int, n int) {
		if *p == 0 {
			*p = n
		}
	}
	set(&e.Keys, 40)
	set(&e.Outs, 3)
	set(&e.Passes, 4)
	if e.Rate == 0 {
		e.Rate = 300
	}
	if e.EndIn == 0 {
		e.EndIn = 45 * time.Second
	}
	if e.Patience == 0 {
		e.Patience = 3 * time.Second
	}
}

// Run lives the episode through and returns what was counted and found. An error
// is one of the harness; everything else is a finding.
func (e *Episode) Run(ctx context.Context) (*Tally, Verdict, error) {
	l, err := e.Begin(ctx)
	if err != nil {
		return NewTally(), Verdict{}, err
	}
	defer l.Close()
	if err := l.torment(ctx); err != nil {
		return l.Tally, *l.Verdict, err
	}
	err = l.Finish(ctx)
	return l.Tally, *l.Verdict, err
}

// Begin makes topics, pipeline file, feed and watch.
func (e *Episode) Begin(ctx context.Context) (*Life, error) {
	e.defaults()
	l := &Life{Episode: e, Verdict: &Verdict{}, Tally: NewTally(), r: rand.New(rand.NewPCG(e.Seed, 0))}
	l.maker = &maker{kind: e.Job.Kind, seed: e.Seed, keys: e.Keys, spread: e.Spread}
	var err error
	if l.job, err = NewJob(e.Broker, e.Dir, e.Job); err != nil {
		return nil, err
	}
	if err := e.Broker.CreateTopics(ctx, l.job.topics(e.Outs)); err != nil {
		return nil, err
	}
	if l.feed, err = NewFeed(e.Broker, l.job.In(), l.maker, e.Rate); err != nil {
		return nil, err
	}
	l.Tally.Add(episodes, 1)
	l.watch, err = NewWatch(e.Broker, l.job.Outs()...)
	return l, err
}

// Close frees what the life has; its folder stays when something was found.
func (l *Life) Close() {
	l.feed.Close()
	if l.watch != nil {
		l.watch.Close()
	}
	if l.OK() {
		_ = os.RemoveAll(l.Dir)
	}
}

// torment starts the worker again and again, and lets it die as it was dealt.
func (l *Life) torment(ctx context.Context) error {
	s := newSchedule(l.r, l.Points, l.Turn, l.Passes)
	for n := 0; l.Tally.Counts[kills] < int64(l.Kills) && l.OK(); n++ {
		if n > 3*l.Kills+10 {
			l.Add(Alive, "%d starts gave %d deaths only", n, l.Tally.Counts[kills])
			return nil
		}
		if err := l.die(ctx, s.next()); err != nil {
			return err
		}
	}
	return nil
}

// die starts a worker, waits for its death, and notes what it left behind.
func (l *Life) die(ctx context.Context, a aim) error {
	var args []string
	if l.Before != nil {
		var err error
		if args, err = l.Before(ctx, l); err != nil {
			return err
		}
	}
	w, err := l.Start(a.fault(), args...)
	if err != nil {
		return err
	}
	if a.point == "" {
		w.Wait(a.after)
	} else if !w.Wait(l.Patience) {
		l.Tally.Add(killsMissed, 1)
		l.Tally.Add("not reached: "+a.point, 1)
		a.point = ""
	}
	if err := ctx.Err(); err != nil {
		w.Kill()
		return err
	}
	w.Kill()
	l.Ended(w)
	if !w.Killed() {
		l.endedByItself(w, a.point)
		return nil
	}
	l.killed(w)
	if a.point == "" {
		l.Tally.Add(killsRandom, 1)
	} else {
		l.Tally.Add(killAt+a.point, 1)
	}
	return nil
}

// killed counts a kill, and whether it came before the job ran.
func (l *Life) killed(w *Worker) {
	l.Tally.Add(kills, 1)
	if l.Broker.Real() {
		l.Tally.Add(realKills, 1)
	} else {
		l.Tally.Add(fakeKills, 1)
	}
	if w.Running() == 0 {
		l.Tally.Add(killsAgain, 1)
	}
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

// Start starts the job's worker with a fault beside those of the episode.
func (l *Life) Start(fault string, args ...string) (*Worker, error) {
	plan := []string{fault, l.Faults}
	if !l.NoDeclines {
		plan = append(plan, declines(l.r))
	}
	plan = slices.DeleteFunc(plan, func(s string) bool { return s == "" })
	w, err := l.job.Start(Start{Binary: l.Binary, Fault: strings.Join(plan, ","), Broken: l.Broken, Args: args})
	if err == nil && l.Scrape {
		go w.scrape()
	}
	return w, err
}

// scrape reads a worker's metrics until it ends.
func (w *Worker) scrape() {
	for !w.Wait(200 * time.Millisecond) {
		m, err := w.Metrics(context.Background())
		if err != nil {
			continue // it is not up, or dying
		}
		w.mu.Lock()
		w.spilled = max(w.spilled, int64(sum(m, "etl_state_spilled_total")))
		w.mu.Unlock()
	}
}

// Ended takes in what a worker said and passed, and looks for what it must not say.
func (l *Life) Ended(w *Worker) {
	lines := w.Lines()
	l.Tally.hear(lines)
	w.mu.Lock()
	l.Tally.Add(spilled, w.spilled)
	w.mu.Unlock()
	if d := w.Running(); d > 0 {
		l.Tally.Starts = append(l.Tally.Starts, d)
	}
	if b, err := os.ReadFile(w.Passed); err == nil {
		for name := range strings.FieldsSeq(string(b)) {
			l.Tally.Passed[name] = true
		}
	}
	l.checkLog(w, lines)
}

// Finish ends the feed, lets the job drain and stop by itself, and checks all.
func (l *Life) Finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
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

// Audit checks the output of a job that has stopped.
func (l *Life) Audit(ctx context.Context) error {
	if l.Tally.Passed["log.append.abandoned.after"] {
		l.Add(Honest, "a published checkpoint was abandoned, and nothing had been lost")
	}
	all, err := l.job.audited(ctx, l.Verdict, l.maker, l.Tally, nil)
	if err != nil {
		return err
	}
	l.checkWatch(ctx, all)
	if err := l.checkLeftovers(ctx); err != nil {
		return err
	}
	l.checkOwners()
	l.checkFiles()
	if l.Scratch && l.OK() {
		return l.checkRestorable(ctx)
	}
	return nil
}

// String names the episode so that it can be run again.
func (e *Episode) String() string {
	return fmt.Sprintf("%s seed %d, %d kills, from point %d", e.Job.Name, e.Seed, e.Kills, e.Turn)
}
