package main

import (
	"context"

	"github.com/spf13/cobra"

	"etl/checkpoint"
	"etl/config"
	"etl/stream"
)

func (a *app) planCommand() *cobra.Command {
	var allow []string
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "what a pipeline guarantees, and what a start would do",
		Long: `Prints the graph as it would run, the guarantee of each path with its weakest
link, when output becomes visible, how long an outage loses nothing, and what a
start would do to stored state. It reads the job's storage and changes nothing. No
server is asked: etl lint --probe does that. The exit code is 4 when a start would be
refused.`,
		Example: `  etl plan pipeline.yaml
  etl plan --json pipeline.yaml | jq '.result.guarantees'`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error { return a.plan(cmd, args[0], allow) },
	}
	cmd.Flags().StringSliceVar(&allow, "allow-dropped-state", nil, "components whose stored state may be dropped")
	return cmd
}

func (a *app) plan(cmd *cobra.Command, file string, allow []string) error {
	job, err := a.load(file)
	if err != nil {
		return err
	}
	ctx, cancel := interrupted(cmd)
	defer cancel()
	h, err := a.history(ctx, job)
	if err != nil {
		return err
	}
	p := job.Plan(h, a.world.Clock.Now(), uids(allow)...)
	if a.json {
		return a.object(cmd.CommandPath(), p, p.Err())
	}
	if err := p.Render(a.out, config.Style{Color: a.style.Color && terminal(a.out)}); err != nil {
		return err
	}
	return p.Err()
}

// history reads what the job's storage holds.
func (a *app) history(ctx context.Context, job *config.Job) (*checkpoint.History, error) {
	st, err := job.OpenStorage(ctx, a.world)
	if err != nil {
		return nil, err
	}
	return checkpoint.ReadHistory(ctx, st)
}

func uids(names []string) (out []stream.UID) {
	for _, n := range names {
		out = append(out, stream.UID(n))
	}
	return out
}
