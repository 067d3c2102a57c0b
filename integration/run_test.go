package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// run is an `etl run` in the background.
type run struct {
	t    testing.TB
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended and all is read

	mu      sync.Mutex
	lines   []line
	changed chan struct{} // closed and replaced with every line
}

// line is a line of the log. Fields is nil when it is not JSON.
type line struct {
	text   string
	fields map[string]any
}

func (l line) str(name string) string { s, _ := l.fields[name].(string); return s }

// start runs the job.
func (j *job) start(args ...string) *run { j.t.Helper(); return j.launch("", args...) }

// faulty runs the job with a plan of package fault: point:nth:action.
func (j *job) faulty(plan string, args ...string) *run { j.t.Helper(); return j.launch(plan, args...) }

func (j *job) launch(plan string, args ...string) *run {
	j.t.Helper()
	r := &run{t: j.t, cmd: j.command("run", args...), done: make(chan struct{}), changed: make(chan struct{})}
	r.cmd.Env = append(r.cmd.Env, "ETL_FAULT="+plan)
	out, err := r.cmd.StderrPipe()
	if err == nil {
		r.cmd.Stdout = r.cmd.Stderr
		err = r.cmd.Start()
	}
	if err != nil {
		j.t.Fatal(err)
	}
	go r.read(out)
	j.t.Cleanup(r.clean)
	return r
}

// clean ends what a failed test has left, and shows its log.
func (r *run) clean() {
	if r.alive() {
		_ = r.cmd.Process.Kill()
		<-r.done
	}
	if r.t.Failed() {
		r.t.Logf("the log of etl run (%v):\n%s", r.cmd.ProcessState, r.log(15))
	}
}

func (r *run) read(from io.Reader) {
	in := bufio.NewScanner(from)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		l := line{text: in.Text()}
		if strings.HasPrefix(l.text, "{") {
			_ = json.Unmarshal([]byte(l.text), &l.fields) // what is not JSON has no fields
		}
		r.mu.Lock()
		r.lines = append(r.lines, l)
		close(r.changed)
		r.changed = make(chan struct{})
		r.mu.Unlock()
	}
	_ = r.cmd.Wait() // how it ended is in its state
	close(r.done)
}

func (r *run) seen() ([]line, chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines[:len(r.lines):len(r.lines)], r.changed
}

// log is the newest part of the log.
func (r *run) log(n int) string {
	lines, _ := r.seen()
	var s strings.Builder
	for _, l := range lines[max(0, len(lines)-n):] {
		fmt.Fprintln(&s, l.text)
	}
	return s.String()
}

func (r *run) alive() bool {
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

// find waits for the nth line, from 1, for which f is true.
func (r *run) find(what string, nth int, f func(line) bool) line {
	r.t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for seen := 0; ; {
		lines, changed := r.seen()
		if n := r.count("restarting from the last checkpoint"); n > 40 {
			r.t.Fatalf("after %d restarts, still not: %s", n, what)
		}
		for ; seen < len(lines); seen++ {
			if f(lines[seen]) {
				if nth--; nth == 0 {
					return lines[seen]
				}
			}
		}
		select {
		case <-changed:
		case <-r.done:
			if again, _ := r.seen(); len(again) == seen {
				r.t.Fatalf("the job ended (%v) before: %s", r.cmd.ProcessState, what)
			}
		case <-timer.C:
			r.t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// message waits for the nth line with a message.
func (r *run) message(msg string, nth int) line {
	r.t.Helper()
	return r.find(msg, nth, func(l line) bool { return l.str("msg") == msg })
}

// count is how many lines have a message.
func (r *run) count(msg string) (n int) {
	lines, _ := r.seen()
	for _, l := range lines {
		if l.str("msg") == msg {
			n++
		}
	}
	return n
}

// running waits until the job runs.
func (r *run) running() *run { r.t.Helper(); r.message("running", 1); return r }

// checkpoints waits for n confirmed checkpoints.
func (r *run) checkpoints(n int) { r.t.Helper(); r.message("checkpoint", n) }

func (r *run) signal(s os.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
}

// exit waits for the end and returns the exit code, -1 for a signal.
func (r *run) exit() int {
	r.t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
		r.t.Fatalf("the job does not end within %v", patience)
	}
	return r.cmd.ProcessState.ExitCode()
}

// ends expects an exit code.
func (r *run) ends(want int) {
	r.t.Helper()
	if got := r.exit(); got != want {
		r.t.Fatalf("exit code %d (%v), want %d", got, r.cmd.ProcessState, want)
	}
}

// killed expects that the plan has killed the process.
func (r *run) killed() {
	r.t.Helper()
	r.exit()
	if st, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || st.Signal() != syscall.SIGKILL {
		r.t.Fatalf("the process ended by itself (%v), and was to be killed", r.cmd.ProcessState)
	}
}

// kill is kill -9, at any time.
func (r *run) kill() { r.t.Helper(); r.signal(syscall.SIGKILL); r.killed() }

// stopped waits until the plan has stopped the process (SIGSTOP).
func (r *run) stopped() {
	r.t.Helper()
	eventually(r.t, "the process comes to the point at which it stops", func() bool {
		if !r.alive() {
			r.t.Fatalf("the process ended: %v", r.cmd.ProcessState)
		}
		return r.state() == 'T'
	})
}

// state is the letter that the kernel has for the process.
func (r *run) state() byte {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(r.cmd.Process.Pid) + "/stat")
	i := strings.LastIndexByte(string(b), ')')
	if err != nil || i < 0 || i+2 >= len(b) {
		return 0
	}
	return b[i+2]
}

// address is where metrics and health are.
func (r *run) address() string {
	r.t.Helper()
	return r.message("health and metrics", 1).str("address")
}

// get asks for a page of that address.
func (r *run) get(path string) (int, string) {
	r.t.Helper()
	c := http.Client{Timeout: patience}
	resp, err := c.Get(r.address() + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// metric adds up a metric over all labels that contain every one of the words.
func (r *run) metric(name string, words ...string) (sum float64) {
	r.t.Helper()
	_, page := r.get("/metrics")
next:
	for text := range strings.Lines(page) {
		rest, ok := strings.CutPrefix(text, name)
		if !ok || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		for _, w := range words {
			if !strings.Contains(rest, w) {
				continue next
			}
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):]), 64)
		if err != nil {
			r.t.Fatalf("%s: %v", text, err)
		}
		sum += v
	}
	return sum
}

// stopSignal asks for a final checkpoint, as an orchestrator does.
const stopSignal = syscall.SIGTERM
