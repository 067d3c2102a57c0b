package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"
)

// declines aborts one of three checkpoints after every sink has prepared. Where it
// begins is drawn for every start: most workers die young. It goes on as long as the
// oldest lives, which was to die where it did not come.
func declines(r *rand.Rand) string {
	var s []string
	for n := 1 + r.IntN(3); n < 300; n += 3 {
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
	// Aims are deaths in their order instead of those that a schedule deals out.
	Aims []aim
	// Until is when no worker dies any more, so that there is time to drain and
	// check; zero for never.
	Until time.Time
	// Passes is up to which pass of a point a death may wait; default 4.
	Passes int
	// Keys is the number of keys, Rate the records per second; 0 for the usual.
	// Spread gives records the keys in turn, Even has neither haste nor silence.
	Keys   int
	Rate   float64
	Spread bool
	Even   bool
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
	// Scratch restores every retained checkpoint into a scratch job at the end.
	Scratch bool
	// Tables are what a job of Job.Into writes.
	Tables *Tables
	// Dir is where the job lies; it is removed when all is well.
	Dir string
}

// Life is an episode while it goes on.
type Life struct {
	*Episode
	*Verdict
	Tally      *Tally
	job        *Job
	maker      *maker
	feed       *Feed
	watch      *Watch // of topics
	tableWatch *TableWatch
	r          *rand.Rand
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
		e.EndIn = 90 * time.Second
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
	if l.feed, err = NewFeed(e.Broker, l.job.In(), l.maker, e.Rate, e.Even); err != nil {
		return nil, err
	}
	l.Tally.Add(episodes, 1)
	if e.Tables != nil {
		if err := e.Tables.init(ctx, l.job, e.Binary); err != nil {
			l.feed.Close()
			return nil, err
		}
		l.tableWatch = NewTableWatch(e.Tables)
		return l, nil
	}
	l.watch, err = NewWatch(e.Broker, l.job.Outs()...)
	return l, err
}

// Close frees what the life has; its folder stays when something was found.
func (l *Life) Close() {
	l.feed.Close()
	if l.watch != nil {
		l.watch.Close()
	}
	if l.tableWatch != nil {
		l.tableWatch.Close(&Verdict{})
	}
	if l.OK() {
		_ = os.RemoveAll(l.Dir)
	}
}

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
	into := ""
	if l.Tables != nil {
		into = intoTables
	}
	l.Tally.hear(lines, into)
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

// Audit checks the output of a job that has stopped.
func (l *Life) Audit(ctx context.Context) error {
	if l.Tally.Passed["log.append.abandoned.after"] {
		l.Add(Honest, "a published checkpoint was abandoned, and nothing had been lost")
	}
	if l.Tables != nil {
		l.checkOwners()
		l.checkFiles()
		return l.auditTables(ctx)
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
