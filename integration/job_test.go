package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"etl/internal/kafkatest"
)

// patience bounds everything that a test waits for. The machine may be busy.
const patience = 2 * time.Minute

// common begins most pipeline files.
const common = `version: 1
name: "${JOB}"
restart: { initial: 100ms, max: 1s }
http: 127.0.0.1:0
telemetry: { log: { format: json } }
connections:
  main: { type: kafka, seed_brokers: ["${KAFKA_BROKERS}"] }
`

// often makes output visible quickly.
const often = "checkpoint: { interval: 200ms, min_pause: 10ms, timeout: 30s }\n"

// job is a pipeline file with its variables and the folder of its data.
type job struct {
	t    testing.TB
	name string
	file string
	dir  string
	env  []string
}

var jobs atomic.Int64

// newJob writes a pipeline file. Each of vars is a variable that it uses, "IN=topic".
func newJob(t testing.TB, b *kafkatest.Broker, text string, vars ...string) *job {
	t.Helper()
	dir := t.TempDir()
	short := strings.ToLower(strings.TrimPrefix(strings.Split(t.Name(), "/")[0], "Test"))
	j := &job{t: t, name: fmt.Sprintf("%.40s-%d", short, jobs.Add(1)), file: filepath.Join(dir, "pipeline.yaml"), dir: filepath.Join(dir, "data")}
	j.set("JOB="+j.name, "KAFKA_BROKERS="+b.Addr())
	j.set(vars...)
	j.write(text)
	return j
}

// set gives variables of the file, or of the program, other values.
func (j *job) set(vars ...string) { j.env = append(j.env, vars...) }

// write replaces the file.
func (j *job) write(text string) {
	j.t.Helper()
	if err := os.WriteFile(j.file, []byte(text), 0o600); err != nil {
		j.t.Fatal(err)
	}
}

// command is one of the program's on the job's file: the words of its name, then
// the file, then the rest.
func (j *job) command(words string, rest ...string) *exec.Cmd {
	j.t.Helper()
	args := append(strings.Fields(words), j.file, "--data-dir", j.dir)
	cmd := exec.CommandContext(j.t.Context(), program(j.t), append(args, rest...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // nothing outlives the tests
	cmd.Env = append(append(os.Environ(), "OTEL_SDK_DISABLED=true", "NO_COLOR=1"), j.env...)
	return cmd
}

// answer is what a command said with --json, and its exit code.
type answer struct {
	Code   int
	OK     bool            `json:"ok"`
	Result json.RawMessage `json:"result"`
	Error  struct {
		Code    string `json:"code"`
		Class   string `json:"class"`
		Message string `json:"message"`
		Fix     string `json:"fix"`
	} `json:"error"`
	All string // of both outputs
}

// etl runs a command to its end.
func (j *job) etl(words string, rest ...string) answer {
	j.t.Helper()
	var out, said bytes.Buffer
	cmd := j.command(words, append(rest, "--json")...)
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Start()
	if err != nil {
		j.t.Fatalf("etl %s: %v", words, err)
	}
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait() // how it ended is in its state
	if !late.Stop() {
		j.t.Fatalf("etl %s does not end within %v\n%s%s", words, patience, out.String(), said.String())
	}
	a := answer{Code: cmd.ProcessState.ExitCode(), All: out.String() + said.String()}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if err = json.Unmarshal([]byte(lines[len(lines)-1]), &a); err != nil {
		j.t.Fatalf("etl %s: exit %d, %v in %s", words, a.Code, err, a.All)
	}
	return a
}

// must is etl for a command that has to succeed.
func (j *job) must(words string, rest ...string) answer {
	j.t.Helper()
	a := j.etl(words, rest...)
	if a.Code != 0 || !a.OK {
		j.t.Fatalf("etl %s %v: exit %d\n%s", words, rest, a.Code, a.All)
	}
	return a
}

// refused is etl for a command that must fail with this exit code and error code,
// and name the facts.
func (j *job) refused(a answer, exit int, code string, facts ...string) answer {
	j.t.Helper()
	if a.Code != exit || a.Error.Code != code {
		j.t.Errorf("exit %d, code %q; want %d, %q\n%s", a.Code, a.Error.Code, exit, code, a.All)
		return a
	}
	for _, f := range facts {
		if !strings.Contains(a.Error.Message, f) {
			j.t.Errorf("%q does not name %q", a.Error.Message, f)
		}
	}
	return a
}

// recount is the part of etl verify's result that tests look at.
type recount struct {
	In          int64 `json:"records_in"`
	Out         int64 `json:"records_out"`
	Missing     int64 `json:"missing"`
	Duplicated  int64 `json:"duplicated"`
	Altered     int64 `json:"altered"`
	OutOfOrder  int64 `json:"out_of_order"`
	Behind      int64 `json:"behind"`
	Uncommitted int64 `json:"uncommitted"`
	NotChecked  []string
}

// recount runs etl verify, which must find no fault. A broker that is busy, or was killed,
// takes longer to show a commit than the few seconds of the command's default.
func (j *job) recount(rest ...string) (r recount) {
	j.t.Helper()
	a := j.must("verify", append(rest, "--settle", "1m")...)
	if err := json.Unmarshal(a.Result, &r); err != nil {
		j.t.Fatal(err)
	}
	return r
}

// caughtUp waits until the running job has written everything, without a fault.
func (j *job) caughtUp(rest ...string) (r recount) {
	j.t.Helper()
	eventually(j.t, "the job catches up", func() bool {
		r = j.recount(rest...)
		return r.Behind == 0 && r.Uncommitted == 0
	})
	return r
}

// finished is the recount of a job that has ended: nothing may be behind or open.
func (j *job) finished(rest ...string) recount {
	j.t.Helper()
	return j.recount(append(rest, "--finished")...)
}

// checkpoints are the ids that etl checkpoints ls shows as completed, newest first.
func (j *job) checkpoints() (ids []string) {
	j.t.Helper()
	var r struct {
		Checkpoints []struct{ ID, Status string }
	}
	if err := json.Unmarshal(j.must("checkpoints ls").Result, &r); err != nil {
		j.t.Fatal(err)
	}
	for _, c := range r.Checkpoints {
		if c.Status == "completed" {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// eventually polls until f is true.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !f(); <-tick.C {
		if time.Now().After(deadline) || t.Context().Err() != nil {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
