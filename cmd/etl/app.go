package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"etl/config"
	"etl/stream"
)

// app is what the commands share.
type app struct {
	in          io.Reader
	out, err    io.Writer
	json, quiet bool
	noColor     bool
	dataDir     string
	world       stream.World
	style       config.Style
}

// exitSecondSignal is the exit code after a second SIGTERM or SIGINT.
const exitSecondSignal = 130

// execute runs one command line and returns the exit code.
func execute(args []string, in io.Reader, out, errw io.Writer) int {
	syscall.Umask(0o077) // state and checkpoints are nobody else's business
	a := &app{in: in, out: out, err: errw, world: stream.SystemWorld(nil)}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errw)
	cmd, err := root.ExecuteContextC(context.Background())
	return a.finish(cmd, err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "etl",
		Short: "exactly-once pipelines from Kafka to Kafka, PostgreSQL and files",
		Long: `etl takes records from Kafka through keyed state into Kafka, PostgreSQL, files and
other places, each exactly once, through crashes and restarts. A pipeline is one YAML
file.`,
		Example: `  etl demo                     see it: records flow, the worker is killed, nothing is lost or doubled
  etl lint pipeline.yaml       check a pipeline file
  etl plan pipeline.yaml       what it guarantees, and what a start would do
  etl run pipeline.yaml        run it as a service until SIGTERM
  etl verify pipeline.yaml     recount the output from the input`,
		SilenceUsage: true, SilenceErrors: true,
		PersistentPreRun: func(*cobra.Command, []string) { a.style.Color = !a.noColor && !a.json && terminal(a.err) },
	}
	f := root.PersistentFlags()
	f.BoolVar(&a.json, "json", false, "print one JSON object as the last line of standard output")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "print less")
	f.BoolVar(&a.noColor, "no-color", os.Getenv("NO_COLOR") != "", "no colours, also by NO_COLOR")
	f.StringVar(&a.dataDir, "data-dir", defaultDataDir(), "folder for state and checkpoints whose place the file does not give, also by ETL_DATA_DIR")
	root.AddCommand(a.demoCommand(), a.runCommand(), a.lintCommand(), a.planCommand(), a.verifyCommand(), a.dlqCommand(), a.stopCommand(), a.cancelCommand(),
		a.checkpointCommand(), a.statusCommand(), a.checkpointsCommand(), a.txnCommand(), a.sinkCommand(), a.schemaCommand(), a.versionCommand(), exitCodesHelp())
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return stream.Errorf(stream.BadConfig, "cli.flag", "", "", "%w", err).WithFix("see etl help")
	})
	return group(root)
}

// exitCodesHelp is a help topic.
func exitCodesHelp() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "what the exit codes mean", Long: `0    done
1    failed: the thing asked about is not so, or the pipeline failed for good
2    the pipeline file or the command line is wrong
3    environment or permission: a server, a disk or a right is missing
4    restore refused: stored state cannot be used; nothing was changed
5    declared data loss: output is lost, or its fate cannot be known
6    fenced: another process owns the job; do not restart blindly
130  second signal`}
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

// defaultDataDir follows the XDG base directories.
func defaultDataDir() string {
	if d := os.Getenv("ETL_DATA_DIR"); d != "" {
		return d
	}
	if d := os.Getenv("XDG_STATE_HOME"); d != "" {
		return filepath.Join(d, "etl")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "state", "etl")
	}
	return "etl-data"
}

// result is the object that --json prints.
type result struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	Result  any    `json:"result,omitempty"`
	Error   *fault `json:"error,omitempty"`
}

// fault is an error in structured output.
type fault struct {
	Code    string `json:"code,omitempty"`
	Class   string `json:"class"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
	Exit    int    `json:"exit"`
}

// shown is an error whose text the command has printed already.
type shown struct{ error }

func (e shown) Unwrap() error { return e.error }

// print writes data for people, or nothing under --json.
func (a *app) print(format string, args ...any) {
	if !a.json {
		fmt.Fprintf(a.out, format, args...)
	}
}

// say writes about the data, to standard error.
func (a *app) say(format string, args ...any) {
	if !a.quiet && !a.json {
		fmt.Fprintf(a.err, format, args...)
	}
}

// done prints the JSON object of a command that succeeded.
func (a *app) done(cmd *cobra.Command, r any) error { return a.object(cmd.CommandPath(), r, nil) }

func (a *app) object(command string, r any, err error) error {
	if !a.json {
		return err
	}
	o := result{Command: command, OK: err == nil, Result: r}
	if err != nil {
		o.Error = faultOf(err)
	}
	if werr := a.line(o); werr != nil {
		return errors.Join(err, werr)
	}
	if err != nil {
		return shown{err}
	}
	return nil
}

// line prints one object as one line.
func (a *app) line(o any) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out, "%s\n", b)
	return err
}

func faultOf(err error) *fault {
	f := &fault{Code: stream.CodeOf(err), Class: stream.ClassOf(err).String(), Message: err.Error(), Exit: exitCode(err)}
	var e *stream.Error
	if errors.As(err, &e) {
		f.Fix = e.Fix
	}
	return f
}

var errSecondSignal = errors.New("second signal: ended without a final checkpoint")

func exitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errSecondSignal):
		return exitSecondSignal
	}
	return stream.ClassOf(err).ExitCode()
}

// finish prints the error of a command, if it was not printed yet, and returns the
// exit code.
func (a *app) finish(cmd *cobra.Command, err error) int {
	var s shown
	if err != nil && !errors.As(err, &s) {
		if a.json {
			_ = a.object(cmd.CommandPath(), nil, err)
		} else {
			fmt.Fprintf(a.err, "etl: %v\n", err)
		}
	}
	return exitCode(err)
}

// interrupted returns a context that ends at the first SIGINT or SIGTERM, for
// commands that have nothing to drain.
func interrupted(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
}
