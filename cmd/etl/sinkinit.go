package main

import (
	"github.com/spf13/cobra"

	"etl/config"
)

func (a *app) sinkCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "sink", Short: "what sinks need of their servers"}
	cmd.AddCommand(a.sinkInitCommand())
	return group(cmd)
}

// initFlags are the flags of sink init.
type initFlags struct {
	apply bool
	role  string
}

func (a *app) sinkInitCommand() *cobra.Command {
	var f initFlags
	cmd := &cobra.Command{
		Use:   "init FILE",
		Short: "print or apply what a database needs before the first run",
		Long: `Prints the statements that make the tables in which sinks keep their books, and the
least rights that the job's role needs: it needs no right to create anything. With
--apply they are run by the role of the connection; give an administrator's through
the variables of the file. Doing it again changes nothing. The tables that sinks
write to must exist.`,
		Example: `  etl sink init pipeline.yaml | psql -d shop
  PG_DSN=postgres://admin@db/shop etl sink init --apply --role etl pipeline.yaml`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error { return a.sinkInit(cmd, args[0], f) },
	}
	cmd.Flags().BoolVar(&f.apply, "apply", false, "run the statements instead of printing them")
	cmd.Flags().StringVar(&f.role, "role", "", "the role that the job runs as, which is granted what it needs; default, without --apply, that of the connection")
	return cmd
}

// initialised is the result of sink init.
type initialised struct {
	Applied bool                    `json:"applied"`
	Sinks   []config.ComponentSetup `json:"sinks"`
}

func (a *app) sinkInit(cmd *cobra.Command, file string, f initFlags) error {
	job, err := a.load(file)
	if err != nil {
		return err
	}
	ctx, cancel := a.patient(cmd)
	defer cancel()
	done, problems := job.Setup(ctx, a.world, f.role, f.apply)
	if !a.json {
		if err := problems.Render(a.err, a.style); err != nil {
			return err
		}
	}
	if err := problems.Err(); err != nil {
		if a.json {
			return err
		}
		return shown{err}
	}
	if a.json {
		return a.done(cmd, initialised{f.apply, done})
	}
	a.showSetup(done, f.apply)
	return nil
}

// showSetup writes a script, or what was done.
func (a *app) showSetup(done []config.ComponentSetup, applied bool) {
	for _, s := range done {
		if applied {
			a.print("%s: set up\n", s.Component)
			continue
		}
		for _, one := range s.Statements {
			if one.Why != "" {
				a.print("-- %s\n", one.Why)
			}
			a.print("%s;\n", one.Text)
		}
	}
	if len(done) == 0 {
		a.say("no sink of this pipeline needs anything\n")
	}
}
