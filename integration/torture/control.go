package torture

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"etl/internal/pgtest"
)

// Control breaks one rule of the protocol on purpose: the named checkers must notice
// within a stated number of kills. Nothing of it is left to luck: the input neither
// hastens nor pauses, and workers die where the break shows.
type Control struct {
	// Rules are what ETL_BROKEN gets.
	Rules string
	Kind  Kind
	// Into is how the job writes tables; "" for topics.
	Into Strategy
	// Catch are the checkers of which one must notice.
	Catch []string
	// Kills is the limit. An episode has as many as Aims has, and then is looked at.
	Kills int
	Aims  []aim
	// Alter sets what else the episode needs.
	Alter func(*Episode)
	// Do is what is done to the job instead of killing it; nil for killing.
	Do func(ctx context.Context, l *Life) error
	// Tell is told to the broker before every start.
	Tell func(j *Job) string
}

// onceMore is a death in doubt, and another one: what the first has broken, the
// second start goes on with.
var onceMore = []aim{{point: inDoubt, nth: 3}, {point: inDoubt, nth: 2}}

// Controls are those that run on the in-process broker. What a local base does when a
// branch is abandoned hangs on when it was written last, which nobody outside the process
// decides: the simulation has the control foreign-base-reused.
var Controls = []Control{
	// The append is late, and the worker dies when the commit has come before it.
	{Rules: "commit-before-publish", Kind: Pass, Catch: []string{Honest, Duplicated}, Kills: 20,
		Aims: []aim{{point: "kafka.endtxn.after", nth: 3}, {point: "kafka.endtxn.after", nth: 1}}, Alter: late},
	// What was published and not committed is either gone or given up.
	{Rules: "no-commit-on-recovery", Kind: Pass, Catch: []string{Missing, Honest}, Kills: 20, Aims: onceMore},
	{Rules: "fence-before-commit", Kind: Pass, Catch: []string{Missing, Honest}, Kills: 20, Aims: onceMore},
	{Rules: "marker-omitted,no-cooling", Kind: Pass, Catch: []string{Honest, Duplicated}, Kills: 20, Do: reusing, Alter: crowded},
	{Rules: "marker-not-read,no-cooling", Kind: Pass, Catch: []string{Honest, Duplicated}, Kills: 20, Do: reusing, Alter: crowded},
	{Rules: "offsets-after-barrier", Kind: Count, Catch: []string{Missing, Counting}, Kills: 30, Aims: onceMore, Alter: busy},
	{Rules: "alignment-skipped", Kind: Count, Catch: []string{Counting, Missing}, Kills: 40, Aims: onceMore, Alter: busy},
	{Rules: "flush-errors-ignored", Kind: Pass, Catch: []string{Missing}, Kills: 20, Aims: onceMore, Alter: fast,
		Tell: func(j *Job) string { return "refuse " + j.Outs()[0] }},
	// The uploads of a checkpoint fail, and the worker dies when the next one is there:
	// what has changed before it is not in the state then, and the keys are many.
	{Rules: "aborted-delta-dropped", Kind: Count, Catch: []string{Counting}, Kills: 20, Aims: onceMore, Alter: func(e *Episode) {
		e.Faults, e.NoDeclines = "uploader.create:2:error,uploader.create:3:error", true
		e.Keys, e.Rate = 400, 1000
	}},
	{Rules: "aborted-committable-unlisted", Kind: Pass, Catch: []string{Missing, Leftovers}, Kills: 10, Aims: onceMore, Alter: func(e *Episode) {
		e.Faults, e.NoDeclines = "checkpoint.append.declined:every2:error", true
	}},
	{Rules: "finish-error-tolerated", Kind: Pass, Catch: []string{Missing}, Kills: 20, Aims: onceMore,
		Tell: func(*Job) string { return "unmark" }},
	{Rules: "epoch-before-acknowledged", Kind: Pass, Catch: []string{Order}, Kills: 20, Aims: onceMore, Alter: fast,
		Tell: func(*Job) string { return "slow 60ms" }},
	// Rows would have to be committed, and the broker would tell the old owner.
	{Rules: "publish-without-log", Kind: Count, Catch: []string{Owners, ExitCode}, Kills: 20, Do: func(ctx context.Context, l *Life) error {
		if err := l.feed.Pause(ctx); err != nil {
			return err
		}
		return l.Zombie(ctx, pointNamed("log.append.checkpoint.before"), 8)
	}},
}

// TableControls are those of jobs that write tables. What the log holds nobody can drop,
// so the order of fencing and delivering makes no difference there.
var TableControls = slices.Concat(
	early(Prepared, "postgres.commit.after"), early(Staged, "postgres.merge.after"), early(Logged, "wal.delivered"),
	forgotten("no-commit-on-recovery", Prepared, Staged, Logged),
	forgotten("fence-before-commit", Prepared, Staged),
	forgotten("staged-rows-dropped", Staged),
)

// early is commit-before-publish, with a death at the point behind the commit.
func early(into Strategy, committed string) []Control {
	return []Control{{Rules: "commit-before-publish", Kind: Count, Into: into, Catch: []string{Honest, Duplicated}, Kills: 20,
		Aims: []aim{{point: committed, nth: 3}, {point: committed, nth: 1}}, Alter: late}}
}

// forgotten is a rule without which what is published and not committed is gone.
func forgotten(rule string, into ...Strategy) (out []Control) {
	for _, s := range into {
		out = append(out, Control{Rules: rule, Kind: Count, Into: s, Catch: []string{Missing, Honest}, Kills: 20, Aims: onceMore})
	}
	return out
}

// late has the append of a checkpoint come after its commit, where that is possible.
func late(e *Episode) {
	e.Faults, e.NoDeclines = "log.append.checkpoint.before:every1:delay=300ms", true
}

// Name is the rule, and where its control runs.
func (c *Control) Name() string { return strings.TrimSpace(c.Rules + " " + string(c.Into)) }

// everyday are the controls of the short run: the quickest.
var everyday = []string{"commit-before-publish", "no-commit-on-recovery", "epoch-before-acknowledged"}

func fast(e *Episode) { e.Rate = 2500 }

// reusing is the torture of markers: see Reuse.
func reusing(ctx context.Context, l *Life) error {
	if err := l.Reuse(ctx, 3); err != nil || !l.OK() {
		return err
	}
	return l.Finish(ctx)
}

// busy keeps the sources at work: something has been fetched and waits when a barrier
// comes, and one of them takes it later than the other.
func busy(e *Episode) {
	e.Rate, e.Job.Interval, e.Job.Fetch, e.Job.Work = 1500, 40*time.Millisecond, "1KiB", 20000
}

func pointNamed(name string) Point {
	return Points[slices.IndexFunc(Points, func(p Point) bool { return p.Name == name })]
}

// Run looks for the rule's break until a named checker notices, and returns how many
// kills that took. With healthy the rule is kept, and nothing may be noticed by
// anybody. Tables are in a database of server.
func (c *Control) Run(ctx context.Context, b *Broker, server *pgtest.Server, binary, dir string, seed uint64, healthy bool) (spent int, v Verdict, err error) {
	for round := 0; spent < c.Kills; round++ {
		e := &Episode{Broker: b, Binary: binary, Seed: seed + uint64(round), Even: true, Aims: c.Aims, Patience: 15 * time.Second, EndIn: 30 * time.Second,
			Job: JobConfig{Kind: c.Kind, Name: fmt.Sprintf("%s-%d", filepath.Base(dir), round)}, Dir: filepath.Join(dir, fmt.Sprint(round))}
		if !healthy {
			e.Broken = c.Rules
		}
		if c.Tell != nil {
			e.Before = func(_ context.Context, l *Life) ([]string, error) { return nil, b.Tell(c.Tell(l.job)) }
		}
		if c.Alter != nil {
			c.Alter(e)
		}
		if c.Into != "" {
			if e.Tables, err = NewTables(ctx, server, c.Into, b.password); err != nil {
				return spent, v, err
			}
			e.Job.Into = c.Into
		}
		n, v, err := c.episode(ctx, e)
		spent += max(n, 1)
		if err != nil || healthy || c.caught(v) {
			return spent, v, err
		}
		if !v.OK() {
			return spent, v, nil // by another checker than the named ones
		}
	}
	return spent, v, nil
}

func (c *Control) episode(ctx context.Context, e *Episode) (int, Verdict, error) {
	if e.Tables != nil {
		defer e.Tables.Close()
	}
	if c.Do == nil {
		t, v, err := e.Run(ctx)
		return int(t.Counts[kills]), v, err
	}
	l, err := e.Begin(ctx)
	if err != nil {
		return 0, Verdict{}, err
	}
	defer l.Close()
	err = c.Do(ctx, l)
	return int(l.Tally.Counts[kills]), *l.Verdict, err
}

func (c *Control) caught(v Verdict) bool {
	return slices.ContainsFunc(c.Catch, func(name string) bool { return v.Found[name] > 0 })
}
