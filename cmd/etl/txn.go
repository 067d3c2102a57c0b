package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"etl/config"
	"etl/pipeline"
	"etl/stream"
)

func (a *app) txnCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "txn",
		Short: "list, explain and finish what is in doubt outside: transactions, prepared and staged rows, part files",
		Long: `A crash leaves things behind that are prepared and neither committed nor aborted. The
next run finishes them by itself; these commands are for when there is none. They join
what the servers hold with the job's checkpoints, and say for each thing whether commit,
abort or heal is right.`,
		Example: `  etl txn ls pipeline.yaml
  etl txn explain pipeline.yaml ID
  etl txn commit pipeline.yaml
  etl txn ls pipeline.yaml --prefix etl.`,
	}
	cmd.AddCommand(a.txnList(), a.txnExplain(),
		a.txnEnd("commit", pipeline.AdviseCommit, "commit what the newest checkpoint lists, verify and confirm it, as a start would", pipeline.Settlement{Commit: true}),
		a.txnEnd("abort", pipeline.AdviseAbort, "abort what no checkpoint that counts lists", pipeline.Settlement{Abort: true}),
		a.txnEnd("heal", pipeline.AdviseHeal, "verify what is committed, and repair what readers cannot see", pipeline.Settlement{Commit: true}))
	return group(cmd)
}

// doubtful is one thing in doubt as the commands print it.
type doubtful struct {
	ID         string              `json:"id"`
	Sink       stream.UID          `json:"sink"`
	Subtask    int                 `json:"subtask"`
	Attempt    stream.Attempt      `json:"attempt"`
	Checkpoint stream.CheckpointID `json:"checkpoint,omitzero"`
	ListedBy   stream.CheckpointID `json:"listed_by,omitzero"`
	Rows       int64               `json:"rows,omitempty"`
	State      string              `json:"state"`
	Age        time.Duration       `json:"age_ns"`
	Left       time.Duration       `json:"left_ns,omitempty"`
	Right      pipeline.Advice     `json:"right"`
	Why        string              `json:"why"`
	Detail     string              `json:"detail,omitempty"`
}

func doubtfuls(ds []pipeline.Doubt) []doubtful {
	out := []doubtful{}
	for _, d := range ds {
		out = append(out, doubtful{ID: d.ID, Sink: d.Sink, Subtask: d.Subtask, Attempt: d.Attempt, Checkpoint: d.Checkpoint, ListedBy: d.Listed,
			Rows: d.Rows, State: d.State, Age: d.Age, Left: d.Left, Right: d.Advice, Why: d.Why, Detail: d.Detail})
	}
	return out
}

// engineJob loads a pipeline file as a job that is not run.
func (a *app) engineJob(ctx context.Context, file string) (*config.Job, *pipeline.Job, error) {
	job, err := a.load(file)
	if err != nil {
		return nil, nil, err
	}
	if err := a.preflight(ctx, job); err != nil {
		return nil, nil, err
	}
	o, err := job.Options(ctx, a.world)
	if err != nil {
		return nil, nil, err
	}
	o.Holder = a.holder()
	j, err := pipeline.NewJob(job.Graph, o)
	return job, j, err
}

func (a *app) txnList() *cobra.Command {
	var prefix string
	cmd := &cobra.Command{Use: "ls FILE", Short: "list what is in doubt, and what is right for each", Args: oneFile,
		Example: "  etl txn ls pipeline.yaml\n  etl txn ls pipeline.yaml --prefix etl.old-job.",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := a.patient(cmd)
			defer cancel()
			_, j, err := a.engineJob(ctx, args[0])
			if err != nil {
				return err
			}
			if prefix != "" {
				found, err := j.Find(ctx, prefix)
				if err != nil {
					return err
				}
				a.doubtTable(doubtfuls(found))
				return a.done(cmd, map[string]any{"prefix": prefix, "items": doubtfuls(found)})
			}
			d, err := j.Doubts(ctx)
			if err != nil {
				return err
			}
			a.doubtTable(doubtfuls(d.Items))
			a.doubtNotes(d)
			return a.done(cmd, doubtResult(d))
		}}
	cmd.Flags().StringVar(&prefix, "prefix", "", "list what has a name that begins so, of any job on the sinks' servers: orphans of jobs that are gone")
	return cmd
}

func doubtResult(d *pipeline.Doubts) map[string]any {
	r := map[string]any{"items": doubtfuls(d.Items), "restore": d.Restore, "running": d.Holder != nil}
	if d.Refused != nil {
		r["refused"] = d.Refused.Error()
	}
	return r
}

func (a *app) doubtTable(ds []doubtful) {
	if a.json {
		return
	}
	if len(ds) == 0 {
		a.say("nothing is in doubt\n")
		return
	}
	w := tabwriter.NewWriter(a.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSINK\tSTATE\tCHECKPOINT\tROWS\tAGE\tLEFT\tRIGHT\tWHY")
	for _, d := range ds {
		left := "-"
		if d.Left != 0 {
			left = d.Left.Round(time.Second).String()
		}
		id := "-"
		if d.Checkpoint != stream.NoCheckpoint {
			id = d.Checkpoint.String()
		}
		fmt.Fprintf(w, "%s\t%s/%d\t%s\t%s\t%d\t%v\t%s\t%s\t%s\n", d.ID, d.Sink, d.Subtask, d.State, id, d.Rows, d.Age.Round(time.Second), left, d.Right, d.Why)
	}
	_ = w.Flush()
}

func (a *app) doubtNotes(d *pipeline.Doubts) {
	switch {
	case d.Holder != nil:
		a.say("the job runs: pid %d on %s, attempt %d; it finishes its own\n", d.Holder.PID, d.Holder.Host, d.Holder.Attempt)
	case d.Refused != nil:
		a.say("a start would refuse: %v\n", d.Refused)
	case d.Restore != stream.NoCheckpoint:
		a.say("a start restores checkpoint %s and does what is right by itself\n", d.Restore)
	}
}

func (a *app) txnExplain() *cobra.Command {
	return a.offline("txn", "explain FILE ID", "say all that is known about one thing in doubt", func(cmd *cobra.Command, ctx context.Context, job *config.Job, args []string) error {
		if len(args) == 0 {
			return stream.Errorf(stream.BadConfig, "cli.no_id", "", "", "no id was named").WithFix("etl txn ls %s lists them", job.File)
		}
		_, j, err := a.engineJob(ctx, job.File)
		if err != nil {
			return err
		}
		d, err := j.Doubts(ctx)
		if err != nil {
			return err
		}
		for _, x := range doubtfuls(d.Items) {
			if x.ID == args[0] {
				a.print("%s\n  sink        %s, subtask %d, attempt %d\n  state       %s for %v\n  outside     %s\n  right       %s: %s\n", x.ID, x.Sink, x.Subtask,
					x.Attempt, x.State, x.Age.Round(time.Second), x.Detail, x.Right, x.Why)
				a.doubtNotes(d)
				return a.done(cmd, x)
			}
		}
		return unknownDoubt(args[0], job.File)
	})
}

func unknownDoubt(id, file string) error {
	return stream.Errorf(stream.Failed, "txn.unknown", "look up", id, "nothing of this name is in doubt").WithFix("etl txn ls %s lists what is", file)
}

// ending are the flags of the commands that change something.
type ending struct{ force, takeOver bool }

func (a *app) txnEnd(verb string, right pipeline.Advice, short string, what pipeline.Settlement) *cobra.Command {
	var f ending
	cmd := &cobra.Command{Use: verb + " FILE [ID...]", Short: short, Args: cobra.MinimumNArgs(1),
		Long: strings.ToUpper(short[:1]) + short[1:] + `.

It opens an attempt first, as a start does, so that nobody else decides at the same
time, and does it for all for which it is right. With IDs it refuses when it is wrong
for one of them.`,
		Example: "  etl txn " + verb + " pipeline.yaml\n  etl txn " + verb + " pipeline.yaml ID",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.endDoubts(cmd, args[0], args[1:], verb, right, what, f)
		}}
	cmd.Flags().BoolVar(&f.takeOver, "take-over", false, "do it although another process holds the job, and fence it")
	if right != pipeline.AdviseHeal {
		cmd.Long += " --force then does it to exactly these, whatever the\ncheckpoints say."
		cmd.Example += " --force"
		cmd.Flags().BoolVar(&f.force, "force", false, "do it to the named ones although it is not right: rows can be lost or doubled")
	}
	return cmd
}

func (a *app) endDoubts(cmd *cobra.Command, file string, ids []string, verb string, right pipeline.Advice, what pipeline.Settlement, f ending) error {
	ctx, cancel := a.patient(cmd)
	defer cancel()
	job, j, err := a.engineJob(ctx, file)
	if err != nil {
		return err
	}
	before, err := j.Doubts(ctx)
	if err != nil {
		return err
	}
	if len(ids) > 0 {
		if f.force {
			what, err = forced(ctx, j, before, ids, verb, file)
		} else {
			err = fitting(before, ids, right, file)
		}
		if err != nil {
			return err
		}
	}
	o, err := job.Options(ctx, a.world)
	if err != nil {
		return err
	}
	o.Holder, o.TakeOver = a.holder(), f.takeOver
	if j, err = pipeline.NewJob(job.Graph, o); err != nil {
		return err
	}
	if err := j.Settle(ctx, what); err != nil {
		return err
	}
	after, err := j.Doubts(ctx)
	if err != nil {
		return err
	}
	a.doubtTable(doubtfuls(after.Items))
	a.print("%s: %d were in doubt, %d still are\n", verb, len(before.Items), len(after.Items))
	r := doubtResult(after)
	r["before"] = doubtfuls(before.Items)
	return a.done(cmd, r)
}

// fitting refuses when verb is wrong for one of ids.
func fitting(d *pipeline.Doubts, ids []string, right pipeline.Advice, file string) error {
	for _, id := range ids {
		i := slices.IndexFunc(d.Items, func(x pipeline.Doubt) bool { return x.ID == id })
		if i < 0 {
			return unknownDoubt(id, file)
		}
		if x := d.Items[i]; x.Advice != right {
			return stream.Errorf(stream.Failed, "txn.wrong", string(right), id, "that is wrong here: %s", x.Why).
				WithFix("%s is right; --force overrides", x.Advice)
		}
	}
	return nil
}

// forced is what ends exactly ids, of this job or of another one on the same servers.
func forced(ctx context.Context, j *pipeline.Job, d *pipeline.Doubts, ids []string, verb, file string) (s pipeline.Settlement, err error) {
	for _, id := range ids {
		items := d.Items
		i := slices.IndexFunc(items, func(x pipeline.Doubt) bool { return x.ID == id })
		if i < 0 {
			if items, err = j.Find(ctx, id); err != nil {
				return s, err
			}
			i = slices.IndexFunc(items, func(x pipeline.Doubt) bool { return x.ID == id })
		}
		if i < 0 {
			return s, unknownDoubt(id, file)
		}
		s.Force = append(s.Force, pipeline.Forced{Sink: items[i].Sink, ID: id, Commit: verb == "commit"})
	}
	return s, nil
}
