package config

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"etl/stream"
)

// TestFiles runs the stories in testdata: a pipeline file and what the loader says
// about it. Every message there is product text: read it as a user would.
//
//	env NAME=value ...            variables of the next files
//	file path=/x mode=0400 content=y
//	prefix                        lines put before every following file
//	lint                          problems as a terminal shows them
//	plan | effective | raw        what a correct file gives; raw takes escapes
func TestFiles(t *testing.T) {
	datadriven.Walk(t, "testdata/load", func(t *testing.T, path string) {
		env, files, prefix := map[string]string{}, map[string]fakeFile{}, ""
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			l := &Loader{Registry: fakeRegistry(), Outside: fakeOutside(env, files), DataDir: "/data"}
			input := strings.ReplaceAll(prefix+d.Input, "<tab>", "\t") + "\n"
			switch d.Cmd {
			case "env":
				for _, a := range d.CmdArgs {
					env[a.Key] = strings.Join(a.Vals, ",")
				}
				return ""
			case "file":
				f, name, mode := fakeFile{}, "", "0400"
				d.ScanArgs(t, "path", &name)
				d.MaybeScanArgs(t, "content", &f.content)
				d.MaybeScanArgs(t, "mode", &mode)
				m, err := strconv.ParseUint(mode, 8, 32)
				if err != nil {
					t.Fatal(err)
				}
				f.mode, f.content = fs.FileMode(m), strings.ReplaceAll(f.content, `\n`, "\n")
				files[name] = f
				return ""
			case "prefix":
				prefix = d.Input + "\n"
				return ""
			case "raw":
				text, err := strconv.Unquote(`"` + strings.ReplaceAll(d.Input, `"`, `\"`) + `"`)
				if err != nil {
					t.Fatal(err)
				}
				input = text
			}
			job, problems := l.Load("pipeline.yaml", []byte(input))
			return show(t, d.Cmd, job, problems)
		})
	})
}

func show(t *testing.T, cmd string, job *Job, problems Problems) string {
	var b strings.Builder
	if err := problems.Render(&b, Style{}); err != nil {
		t.Fatal(err)
	}
	switch {
	case (job == nil) != problems.Failed():
		t.Errorf("job %v, but the problems are %v", job, problems)
	case job == nil:
	case cmd == "plan":
		if err := job.Plan(nil, time.Time{}).Render(&b, Style{}); err != nil {
			t.Fatal(err)
		}
	case cmd == "effective":
		b.Write(job.Effective())
	case b.Len() == 0:
		b.WriteString("ok\n")
	}
	return b.String()
}

func TestProblemIsAnError(t *testing.T) {
	_, ps := (&Loader{Registry: fakeRegistry()}).Load("p.yaml", []byte("name: x\n"))
	err := ps.Err()
	if stream.ClassOf(err).ExitCode() != 2 || !strings.Contains(err.Error(), "at least one source") {
		t.Errorf("%v", err)
	}
	if fmt.Sprint(stream.CodeOf(err)) == "" {
		t.Error("no code")
	}
}
