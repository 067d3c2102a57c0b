package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"etl/checkpoint"
	"etl/config"
	"etl/config/kafka"
	"etl/internal/control"
	"etl/internal/kafkaconn"
	"etl/internal/telemetry"
	"etl/pipeline"
	"etl/stream"
)

// runFlags are the flags of run.
type runFlags struct {
	from             string
	allowDropped     []string
	acceptDuplicates bool
	takeOver         bool
	acceptForeign    bool
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "run a pipeline as a service until SIGTERM",
		Long: `Runs a pipeline. It restores the newest checkpoint, finishes what an earlier run had
prepared, and goes on exactly where that checkpoint stands. SIGTERM or SIGINT takes a
final checkpoint, commits and confirms it, and exits 0; a second signal ends at once.`,
		Example: `  etl run pipeline.yaml
  etl run pipeline.yaml --from 3.17 --accept-duplicates
  KAFKA_BROKERS=kafka:9092 etl run pipeline.yaml`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd, args[0], f) },
	}
	cmd.Flags().StringVar(&f.from, "from", "latest", "latest, none (start empty although there are checkpoints), or a checkpoint id")
	cmd.Flags().StringSliceVar(&f.allowDropped, "allow-dropped-state", nil, "components whose stored state may be dropped")
	cmd.Flags().BoolVar(&f.acceptDuplicates, "accept-duplicates", false, "restore --from although the sinks have committed more since: those rows are written again")
	cmd.Flags().BoolVar(&f.takeOver, "take-over", false, "start although another process holds the job, and fence it")
	cmd.Flags().BoolVar(&f.acceptForeign, "accept-foreign-lineage", false, "begin without checkpoints beside what an earlier life of the same name has committed")
	return cmd
}

func (f runFlags) restore() (r pipeline.RestoreOptions, err error) {
	r.AcceptDuplicates, r.AllowDropped = f.acceptDuplicates, uids(f.allowDropped)
	switch f.from {
	case "latest":
	case "none":
		r.Empty = true
	default:
		if r.From, err = stream.ParseCheckpointID(f.from); err != nil {
			err = stream.Errorf(stream.BadConfig, "cli.from", "", "", "--from: %w", err).WithFix("list checkpoints with: etl checkpoints ls FILE")
		}
	}
	return r, err
}

func (a *app) run(cmd *cobra.Command, file string, f runFlags) error {
	seen := &observed{clients: map[stream.UID]*kafkaconn.Traffic{}}
	job, err := a.load(file, kafka.Options{OnOpen: seen.opened, Traffic: seen.traffic, AcceptForeign: f.acceptForeign})
	if err != nil {
		return err
	}
	restore, err := f.restore()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	a.guarantees(job)
	log, err := telemetry.NewLogger(a.err, telemetry.LogOptions{Level: job.Spec.Telemetry.Log.Level, Format: job.Spec.Telemetry.Log.Format, Terminal: terminal(a.err)})
	if err != nil {
		return err
	}
	t, err := telemetry.New(ctx, telemetry.Options{Pipeline: job.Spec.Name, Guarantee: weakest(job), Version: version, Log: log,
		MaxCheckpointAge: job.MaxCheckpointAge()})
	if err != nil {
		return err
	}
	a.world.Log = t.Logger()
	seen.to(t)
	defer a.watch(ctx, a.logWait)()
	defer t.Shutdown(context.WithoutCancel(ctx)) //nolint:errcheck // exporters that fail at the end have said so
	if addr := job.Spec.HTTP.Address; addr != "none" {
		at, _, err := t.Serve(ctx, addr)
		if err != nil {
			return err
		}
		log.Info("health and metrics", "address", "http://"+at.String())
	}
	if err := a.preflight(ctx, job); err != nil {
		return err
	}
	o, err := job.Options(ctx, a.world)
	if err != nil {
		return err
	}
	o.Restore, o.TakeOver, o.Holder = restore, f.takeOver, a.holder()
	return a.serve(cmd, ctx, job, o, t)
}

// preflight asks the servers what the file could not tell, and prints what is
// wrong.
func (a *app) preflight(ctx context.Context, job *config.Job) error {
	problems := job.Preflight(ctx, a.world)
	if ctx.Err() != nil { // that it was interrupted is no problem of the file
		return context.Cause(ctx)
	}
	if a.json {
		return problems.Err()
	}
	if err := problems.Render(a.err, a.style); err != nil {
		return err
	}
	if err := problems.Err(); err != nil {
		return shown{err}
	}
	return nil
}

// serve runs the job with its control socket and its signals.
func (a *app) serve(cmd *cobra.Command, ctx context.Context, job *config.Job, o pipeline.Options, t *telemetry.Telemetry) error {
	l := t.Listener()
	var server *control.Server
	tell := l.Job
	l.Job = func(e stream.JobEvent) {
		if e.Phase == "running" && server != nil {
			if err := server.Listen(e.Attempt); err != nil {
				a.world.Log.Warn("the job cannot be controlled from outside", "error", err)
			}
		}
		tell(e)
	}
	o.Listener = l
	j, err := pipeline.NewJob(job.Graph, o)
	if err != nil {
		return err
	}
	dir, err := a.jobDir(job)
	if err != nil {
		return err
	}
	server = control.NewServer(j, dir, a.world.Log.Warn)
	var second bool
	stopSignals := onSignals(func(n int) {
		if n == 1 {
			a.say("draining: final checkpoint, then the end; a second signal ends at once\n")
			j.Stop()
			return
		}
		second = true
		j.Cancel()
	})
	err = j.Run(ctx)
	stopSignals()
	if second {
		err = errors.Join(errSecondSignal, err)
	}
	server.Ended(err)
	st := j.Status()
	if err != nil {
		return a.object(cmd.CommandPath(), st, err)
	}
	if st.Confirmed < st.Published { // cancelled, and the commits did not succeed
		a.say("stopped; what checkpoint %s has prepared is not committed yet, the next run does it: etl run %s\n", st.Published, job.File)
		return a.done(cmd, st)
	}
	a.say("stopped at checkpoint %s, everything is committed; go on with: etl run %s\n", st.Confirmed, job.File)
	return a.done(cmd, st)
}

// onSignals calls f with the number of each SIGTERM or SIGINT. The function it
// returns ends that, and waits until no call is under way.
func onSignals(f func(n int)) (stop func()) {
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for n := 1; ; n++ {
			select {
			case <-ch:
				f(n)
			case <-quit:
				return
			}
		}
	}()
	return func() {
		signal.Stop(ch)
		close(quit)
		<-done
	}
}

func (a *app) holder() checkpoint.Holder {
	host, _ := os.Hostname()
	return checkpoint.Holder{Host: host, PID: os.Getpid(), Since: a.world.Clock.Now().UTC().Format(time.RFC3339), Command: strings.Join(os.Args, " ")}
}

// weakest is the lowest guarantee of the job's paths.
func weakest(job *config.Job) string {
	low := config.Guarantee{}
	for i, g := range job.Guarantees() {
		if i == 0 || g.Level < low.Level {
			low = g
		}
	}
	b, _ := low.Level.MarshalText() // never fails
	return string(b)
}
