package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"etl/demo"
	"etl/stream"
)

// demoFlags are the flags of demo.
type demoFlags struct {
	kills       int
	seed        uint64
	records     int64
	atLeastOnce bool
}

func (a *app) demoCommand() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "see it: records flow, the worker is killed, nothing is lost or doubled",
		Long: `Runs a word count against a broker in this process. The worker, a child process, is
killed at the worst moments of the protocol and started again. At the end an
independent recount says what is missing and what is there twice. Nothing is left
behind. With --at-least-once the same run shows the duplicates.`,
		Example: `  etl demo
  etl demo --at-least-once          the same without transactions: see the duplicates
  etl demo --kills 20 --seed 7
  etl demo --json | tail -1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.demo(cmd, f) },
	}
	cmd.Flags().IntVar(&f.kills, "kills", 5, "how often the worker is killed; 0 for never")
	cmd.Flags().Uint64Var(&f.seed, "seed", 1, "fixes the input and the points of the kills")
	cmd.Flags().Int64Var(&f.records, "records", 0, "number of input lines; 0 for the default")
	cmd.Flags().BoolVar(&f.atLeastOnce, "at-least-once", false, "run without transactions, to show what they are for")
	return cmd
}

func (a *app) demo(cmd *cobra.Command, f demoFlags) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o := demo.Options{Out: a.out, Start: demo.Executable(self), Kills: f.kills, Seed: f.seed, Records: f.records, AtLeastOnce: f.atLeastOnce, Clock: a.world.Clock}
	if f.kills == 0 {
		o.Kills = demo.NoKills
	}
	if a.quiet {
		o.Out = io.Discard
	}
	ctx, cancel := interrupted(cmd)
	defer cancel()
	r, err := demo.Run(ctx, o)
	if err != nil {
		return err
	}
	if !r.OK {
		err = stream.Errorf(stream.Failed, "demo.mismatch", "demo", "", "missing %d, duplicated %d", r.Missing, r.Duplicated)
	}
	return a.demoResult(r, err)
}

// demoResult prints the result as the last line under --json: one object with the
// fields of the result itself.
func (a *app) demoResult(r *demo.Result, err error) error {
	if a.json {
		if jerr := a.line(r); jerr != nil {
			return jerr
		}
	}
	if err != nil {
		return shown{err}
	}
	return nil
}
