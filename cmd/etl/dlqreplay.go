package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"etl/checkpoint"
	"etl/config"
	"etl/deadletter"
	"etl/internal/telemetry"
	"etl/pipeline"
)

// replayFlags are those of dlq replay besides the selection.
type replayFlags struct {
	dlqFlags
	to            string
	again, dryRun bool
	takeOver      bool
}

func (a *app) dlqReplayCommand() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{Use: "replay FILE", Short: "put the records of dead letters back into the topics they were read from, each exactly once", Args: oneFile,
		Long: `Writes the original records of dead letters, key, value, headers and time, to the
topics and partitions they were read from, in transactions. It ends with the letters
that are there when it starts, in a topic, a table or files. Killed or stopped, the same
command continues where it was, and nothing is written twice. Called again after its end
it takes up the letters that have come since; --again puts all of them back once more. A
replay that was cut off is finished first, also by --again: only one that has printed
its result is begun anew. Letters that other flags select are another replay: what two
of them select both is written twice.`,
		Example: "  etl dlq replay pipeline.yaml\n  etl dlq replay pipeline.yaml --component priced --dry-run\n  etl dlq replay pipeline.yaml --code json.syntax --to shop.orders.repair",
		RunE:    func(cmd *cobra.Command, args []string) error { return a.replayLetters(cmd, args[0], &f) }}
	cmd.Flags().StringVar(&f.to, "to", "", "the topic to write to, on the cluster the records were read from; default the topic of each record")
	cmd.Flags().BoolVar(&f.again, "again", false, "begin anew at the oldest letter, once the replay before has printed its result")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "count what the flags select, and write nothing")
	cmd.Flags().BoolVar(&f.takeOver, "take-over", false, "start although another process runs the same replay, and fence it")
	return f.selecting(cmd)
}

// replayed is the result of dlq replay.
type replayed struct {
	Job  string `json:"job"`
	Sink string `json:"sink"` // that is read
	// SinksLeftOut are the sinks whose letters cannot be read back.
	SinksLeftOut []string `json:"sinks_left_out,omitempty"`
	// Continued says that an earlier call had begun the job, and was cut off.
	Continued bool  `json:"continued,omitempty"`
	Replayed  int64 `json:"replayed"`
	// LeftOut were not selected, Made have no original record, Others are no letters,
	// Gone were deleted while the replay was at work.
	LeftOut int64            `json:"left_out"`
	Made    int64            `json:"made"`
	Others  int64            `json:"others"`
	Gone    int64            `json:"gone,omitempty"`
	DryRun  bool             `json:"dry_run,omitempty"`
	Status  *pipeline.Status `json:"status,omitempty"`
}

func (r *replayed) count(t *deadletter.Tally) {
	r.Replayed, r.LeftOut, r.Made, r.Others, r.Gone = t.Replayed.Load(), t.LeftOut.Load(), t.Made.Load(), t.Others.Load(), t.Gone.Load()
}

func (a *app) replayLetters(cmd *cobra.Command, file string, f *replayFlags) error {
	job, err := a.load(file)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	r, leftOut, err := a.replay(ctx, job, &f.dlqFlags)
	if err != nil {
		return err
	}
	defer a.watch(ctx, a.sayWait)()
	out := replayed{Sink: r.From.Sink(), SinksLeftOut: leftOut, DryRun: f.dryRun}
	r.To, r.Again = f.to, f.again
	if f.dryRun {
		return a.countLetters(cmd, ctx, r, &out)
	}
	if err := a.replayOptions(ctx, job, r, f); err != nil {
		return err
	}
	j, err := r.Begin(ctx)
	if err != nil {
		return err
	}
	stopped := false
	stopSignals := onSignals(func(n int) {
		if stopped = true; n == 1 {
			j.Stop()
			return
		}
		j.Cancel()
	})
	err = j.Run(ctx)
	stopSignals()
	st := j.Status()
	out.Job, out.Continued, out.Status = st.Job, j.Continues, &st
	out.count(j.Tally)
	if err != nil {
		return a.object(cmd.CommandPath(), out, err)
	}
	a.printReplayed(&out)
	if stopped {
		a.say("stopped; the same command continues\n")
		return a.done(cmd, out)
	}
	if f.again && j.Continues {
		a.say("this finished a replay that had been cut off; the same command now begins anew at the oldest letter\n")
	}
	if err := a.done(cmd, out); err != nil {
		return err
	}
	a.told(ctx, j)
	return nil
}

// told notes that the result of a replay was printed. That comes last: a call that was
// killed before is repeated, and must not put everything back a second time.
func (a *app) told(ctx context.Context, j *deadletter.Run) {
	if err := j.Told(ctx); err != nil {
		a.say("the end of the replay could not be noted, so --again would take it for one that was cut off: %v\n", err)
	}
}

// replayOptions says how the replay's job runs: as the job does, but exactly once, and
// with checkpoints of its own.
func (a *app) replayOptions(ctx context.Context, job *config.Job, r *deadletter.Replay, f *replayFlags) error {
	level := "warn"
	if a.quiet {
		level = "error"
	}
	log, err := telemetry.NewLogger(a.err, telemetry.LogOptions{Level: level, Format: job.Spec.Telemetry.Log.Format, Terminal: terminal(a.err)})
	if err != nil {
		return err
	}
	a.world.Log = log
	o, err := job.Options(ctx, a.world)
	if err != nil {
		return err
	}
	o.Policy.Mode, o.NewBackend, o.DeleteOnCancel = checkpoint.ExactlyOnce, nil, false
	o.TakeOver, o.Holder = f.takeOver, a.holder()
	r.Options = o
	r.Storage = func(ctx context.Context, name string) (checkpoint.Storage, error) {
		return job.OpenStorageOf(ctx, a.world, name)
	}
	return nil
}

// countLetters counts what a replay from the beginning would do.
func (a *app) countLetters(cmd *cobra.Command, ctx context.Context, r *deadletter.Replay, out *replayed) error {
	var topics []string
	for _, c := range r.Clusters {
		topics = append(topics, c.Topics...)
	}
	var unknown error
	others, err := r.From.Read(ctx, a.world, func(l *deadletter.Found) error {
		switch {
		case !r.Filter.Takes(&l.Letter):
			out.LeftOut++
		case l.Made:
			out.Made++
		case !slices.Contains(topics, l.Topic):
			unknown = deadletter.UnknownTopic(&l.Letter)
		default:
			out.Replayed++
		}
		return nil
	})
	if out.Others = others; errors.Join(err, unknown) != nil {
		return a.object(cmd.CommandPath(), out, errors.Join(err, unknown))
	}
	a.printReplayed(out)
	return a.done(cmd, out)
}

func (a *app) printReplayed(r *replayed) {
	did := "replayed"
	if r.DryRun {
		did = "would be replayed from the beginning"
	}
	a.print("%s %s\n", plural(int(r.Replayed), "record"), did)
	for _, x := range []struct {
		n    int64
		what string
	}{{r.LeftOut, "not selected"}, {r.Made, "made of several records, left out"}, {r.Others, "no dead letters"}, {r.Gone, "gone since the replay began"}} {
		if x.n > 0 {
			a.print("  %s\n", fmt.Sprint(x.n, " ", x.what))
		}
	}
}
