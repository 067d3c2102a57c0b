package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"etl/config"
	"etl/config/kafka"
)

func (a *app) lintCommand() *cobra.Command {
	var probe bool
	cmd := &cobra.Command{
		Use:     "lint FILE",
		Aliases: []string{"validate"},
		Short:   "check a pipeline file, all problems at once",
		Long: `Checks a pipeline file with the loader that run uses: what lint accepts, run
accepts. It connects to nothing, unless --probe asks the servers: topics, tables, keys,
types, settings, clocks and each right by name, and looks at the disks of file sinks,
changing nothing. Kafka has no clock that can be asked. Problems come with
file:line:column, an excerpt and a fix; the exit code is 2 when there is an error, 3
when only a server or a right is missing.`,
		Example: `  etl lint pipeline.yaml
  etl lint pipeline.yaml --probe
  etl lint --json pipeline.yaml | jq '.result.problems[].fix'`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error { return a.lint(cmd, args[0], probe) },
	}
	cmd.Flags().BoolVar(&probe, "probe", false, "also ask the servers of the job; nothing is changed there")
	return cmd
}

// linted is the result of lint.
type linted struct {
	Errors     int                `json:"errors"`
	Warnings   int                `json:"warnings"`
	Problems   config.Problems    `json:"problems"`
	Guarantees []config.Guarantee `json:"guarantees,omitempty"`
}

func (a *app) lint(cmd *cobra.Command, file string, probe bool) error {
	job, problems, err := a.check(file)
	if err != nil {
		return err
	}
	if job != nil && probe && !problems.Failed() {
		ctx, cancel := a.patient(cmd)
		defer cancel()
		problems = job.Probe(ctx, a.world)
		if ctx.Err() != nil { // that it was interrupted is no problem of the file
			return context.Cause(ctx)
		}
	}
	r := linted{Problems: problems}
	r.Errors, r.Warnings = problems.Count()
	if job != nil {
		r.Guarantees = job.Guarantees()
	}
	if a.json {
		return a.object(cmd.CommandPath(), r, problems.Err())
	}
	if err := problems.Render(a.out, a.style); err != nil {
		return err
	}
	if err := problems.Err(); err != nil {
		return shown{err}
	}
	a.guarantees(job)
	a.print("%s: ok\n", file)
	return nil
}

func (a *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "print the JSON Schema of pipeline files, for editors",
		Example: "  etl schema > etl.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(a.out, "%s\n", config.Schema(registry(kafka.Options{})))
			return err
		},
	}
}
