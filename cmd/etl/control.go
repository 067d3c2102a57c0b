package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"etl/internal/control"
	"etl/pipeline"
	"etl/stream"
)

// asking makes a command that asks the running job for something.
func (a *app) asking(use, what, short, long, example string, tell func(control.Reply)) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Long: long, Example: example, Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			job, err := a.load(args[0])
			if err != nil {
				return err
			}
			dir, err := a.jobDir(job)
			if err != nil {
				return err
			}
			ctx, cancel := interrupted(cmd)
			defer cancel()
			r, err := a.ask(ctx, dir, what)
			if err != nil {
				return err
			}
			if !r.OK {
				return stream.Errorf(stream.Failed, r.Code, what, job.Spec.Name, "%s", r.Error)
			}
			tell(r)
			return a.done(cmd, r)
		}}
}

// ask asks the running job, and says now and then what it is doing meanwhile.
func (a *app) ask(ctx context.Context, dir, what string) (control.Reply, error) {
	var told sync.WaitGroup
	defer told.Wait()
	waiting, answered := context.WithCancel(ctx)
	defer answered()
	told.Go(func() {
		for pause := 5 * time.Second; a.world.Clock.Sleep(waiting, pause) == nil; pause = min(2*pause, time.Minute) {
			a.tellWaiting(waiting, dir, what)
		}
	})
	r, err := control.Ask(ctx, a.world.Clock, dir, what)
	if ctx.Err() != nil && what != "status" {
		a.say("%s: not waited for any more; the job was asked, and may do it all the same\n", what)
	}
	return r, err
}

// glance is how long a job may take to say what it is doing.
const glance = 3 * time.Second

// tellWaiting says what a job is doing that was asked for something. One that does not say
// so in time is stopped, or cannot go on: nobody would hear of it otherwise.
func (a *app) tellWaiting(ctx context.Context, dir, what string) {
	glancing, enough := context.WithCancel(ctx)
	defer enough()
	go func() {
		_ = a.world.Clock.Sleep(glancing, glance)
		enough()
	}()
	r, err := control.Ask(glancing, a.world.Clock, dir, "status")
	switch {
	case ctx.Err() != nil:
		return
	case err != nil || r.Status == nil:
		a.say("%s: still waiting; the job does not answer\n", what)
		return
	}
	a.say("%s: still waiting; %s", what, statusLine(r.Status))
	if r.Status.Error != "" {
		a.say("  %s\n", r.Status.Error)
	}
	if what == "stop" {
		a.say("  to end it without a final checkpoint: etl cancel\n")
	}
}

func statusLine(s *pipeline.Status) string {
	return fmt.Sprintf("%s  attempt %d  restored %s  published %s  confirmed %s  failing %d  restarts %d\n", s.Phase, s.Attempt,
		s.Restored, s.Published, s.Confirmed, s.Failing, s.Restarts)
}

func (a *app) stopCommand() *cobra.Command {
	return a.asking("stop FILE", "stop", "end a running job: final checkpoint, commit, confirm",
		`Asks the running job for a final checkpoint, waits until it is committed and
confirmed, and ends the job. Nothing is read after the checkpoint; the next run goes
on from there.`, "  etl stop pipeline.yaml",
		func(r control.Reply) { a.print("stopped at checkpoint %s\n", r.Checkpoint) })
}

func (a *app) cancelCommand() *cobra.Command {
	return a.asking("cancel FILE", "cancel", "end a running job at once",
		`Ends the running job without a checkpoint, and its open transactions with it:
those of published checkpoints are committed, the others aborted. What came after the
last checkpoint is read again by the next run.`, "  etl cancel pipeline.yaml",
		func(r control.Reply) {
			if r.Checkpoint == stream.NoCheckpoint {
				a.print("cancelled before its first checkpoint\n")
				return
			}
			a.print("cancelled; the next run goes on from checkpoint %s\n", r.Checkpoint)
		})
}

func (a *app) checkpointCommand() *cobra.Command {
	return a.asking("checkpoint FILE", "checkpoint", "take a checkpoint of a running job now",
		`Triggers a checkpoint and waits until it is published, committed and confirmed.`, "  etl checkpoint pipeline.yaml",
		func(r control.Reply) { a.print("checkpoint %s is confirmed\n", r.Checkpoint) })
}

func (a *app) statusCommand() *cobra.Command {
	return a.asking("status FILE", "status", "what a running job is doing",
		`Prints the phase, the attempt and the newest checkpoints of the running job.`, "  etl status pipeline.yaml --json",
		func(r control.Reply) {
			a.print("%s", statusLine(r.Status))
		})
}
