package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"etl/config"
	"etl/config/kafka"
	"etl/stream"
)

// oneFile demands exactly one pipeline file. No file is an error: a check that
// checked nothing must not look like success.
func oneFile(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return stream.Errorf(stream.BadConfig, "cli.no_file", "", "", "no pipeline file was named").WithFix("etl <command> pipeline.yaml")
	case 1:
		return nil
	}
	return stream.Errorf(stream.BadConfig, "cli.too_many_files", "", "", "one pipeline file is expected, %d were named", len(args))
}

// loader is the one loader of all commands. o is what a running job adds.
func (a *app) loader(o ...kafka.Options) (*config.Loader, error) {
	o = append(o, kafka.Options{})
	dir, err := filepath.Abs(a.dataDir)
	if err != nil {
		return nil, err
	}
	return &config.Loader{Registry: registry(o[0]), DataDir: dir}, nil
}

// load reads a pipeline file and prints what is wrong with it.
func (a *app) load(file string, o ...kafka.Options) (*config.Job, error) {
	job, problems, err := a.check(file, o...)
	if err != nil {
		return nil, err
	}
	if !a.json {
		if err := problems.Render(a.err, a.style); err != nil {
			return nil, err
		}
	}
	if err := problems.Err(); err != nil {
		if !a.json {
			err = shown{err}
		}
		return nil, err
	}
	return job, nil
}

// check reads a pipeline file without printing.
func (a *app) check(file string, o ...kafka.Options) (*config.Job, config.Problems, error) {
	data, err := a.read(file)
	if err != nil {
		return nil, nil, stream.Errorf(stream.BadConfig, "cli.unreadable_file", "read", file, "%w", err)
	}
	l, err := a.loader(o...)
	if err != nil {
		return nil, nil, err
	}
	job, problems := l.Load(file, data)
	return job, problems, nil
}

// read reads a file, or standard input for "-".
func (a *app) read(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(a.in)
	}
	return os.ReadFile(file)
}

// jobDir is the folder of a job's control sockets.
func (a *app) jobDir(job *config.Job) (string, error) {
	dir, err := filepath.Abs(a.dataDir)
	return filepath.Join(dir, job.Spec.Name), err
}

// guarantees are the lines that run, lint and plan show alike.
func (a *app) guarantees(job *config.Job) {
	for _, g := range job.Guarantees() {
		a.say("guarantee  %s\n", g)
	}
}

func plural(n int, what string) string {
	if n == 1 {
		return fmt.Sprint(n, " ", what)
	}
	return fmt.Sprint(n, " ", what, "s")
}
