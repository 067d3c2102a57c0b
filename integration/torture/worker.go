package torture

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Start says how to start the binary.
type Start struct {
	Binary string
	Fault  string   // ETL_FAULT
	Broken string   // ETL_BROKEN, for a binary that obeys it
	Args   []string // after "run FILE"
}

// Worker is one run of the binary.
type Worker struct {
	Log    string // file of all it says
	Passed string // file of the points it passed
	cmd    *exec.Cmd
	began  time.Time
	done   chan struct{}

	mu      sync.Mutex
	lines   []Line
	running time.Duration // until it ran, 0 if it never did
	changed chan struct{} // closed and replaced with every line
	spilled int64         // entries, when its metrics were read last
}

// Line is one line of a worker's log.
type Line struct {
	Text   string
	Fields map[string]any // nil for a line that is not JSON
}

// Msg returns the line's message, "" if it has none.
func (l Line) Msg() string { s, _ := l.Fields["msg"].(string); return s }

// Start starts the job's worker.
func (j *Job) Start(s Start) (*Worker, error) {
	j.starts++
	w := &Worker{Log: filepath.Join(filepath.Dir(j.Dir), fmt.Sprintf("worker-%04d.log", j.starts)), done: make(chan struct{}),
		changed: make(chan struct{})}
	w.Passed = strings.TrimSuffix(w.Log, ".log") + ".passed"
	w.cmd = exec.Command(s.Binary, append([]string{"run", j.File, "--data-dir", j.Dir}, s.Args...)...)
	w.cmd.Env = append(os.Environ(), "ETL_FAULT="+s.Fault, "ETL_BROKEN="+s.Broken, "ETL_FAULT_PASSED="+w.Passed,
		passwordEnv+"="+j.broker.password, dsnEnv+"="+j.dsn, "OTEL_SDK_DISABLED=true")
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := w.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	w.cmd.Stdout = nil
	w.began = time.Now()
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	go w.read(out)
	return w, nil
}

// read follows what the worker says until it ends.
func (w *Worker) read(r io.Reader) {
	f, err := os.Create(w.Log)
	if err == nil {
		defer f.Close()
		r = io.TeeReader(r, f)
	}
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		l := Line{Text: in.Text()}
		if strings.HasPrefix(l.Text, "{") {
			_ = json.Unmarshal([]byte(l.Text), &l.Fields) // what is not JSON is a line without fields
		}
		w.mu.Lock()
		w.lines = append(w.lines, l)
		if l.Msg() == "running" && w.running == 0 {
			w.running = time.Since(w.began)
		}
		close(w.changed)
		w.changed = make(chan struct{})
		w.mu.Unlock()
	}
	_ = w.cmd.Wait() // how it ended is in its state
	close(w.done)
}

// Lines are those of the log so far.
func (w *Worker) Lines() []Line {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lines[:len(w.lines):len(w.lines)]
}

// Running returns how long it took until the job ran, 0 while it does not.
func (w *Worker) Running() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running
}

// Await returns the first line for which f is true, nil when the worker ends or
// limit passes before.
func (w *Worker) Await(limit time.Duration, f func(Line) bool) *Line {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for seen := 0; ; {
		w.mu.Lock()
		lines, changed := w.lines, w.changed
		w.mu.Unlock()
		for ; seen < len(lines); seen++ {
			if f(lines[seen]) {
				return &lines[seen]
			}
		}
		select {
		case <-changed:
		case <-w.done:
			return nil
		case <-timer.C:
			return nil
		}
	}
}

// AwaitRunning waits until the job runs.
func (w *Worker) AwaitRunning(limit time.Duration) bool {
	return w.Await(limit, func(l Line) bool { return l.Msg() == "running" }) != nil
}

// Signal sends a signal.
func (w *Worker) Signal(s syscall.Signal) { _ = w.cmd.Process.Signal(s) }

// Wait waits for the end and reports whether it came in time.
func (w *Worker) Wait(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-w.done:
		return true
	case <-timer.C:
		return false
	}
}

// Kill kills it and waits for the end.
func (w *Worker) Kill() {
	w.Signal(syscall.SIGKILL)
	<-w.done
}

// Killed reports whether SIGKILL ended it.
func (w *Worker) Killed() bool {
	st := w.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return st.Signaled() && st.Signal() == syscall.SIGKILL
}

// Code is the exit code, -1 for a signal.
func (w *Worker) Code() int { return w.cmd.ProcessState.ExitCode() }

// Ended describes the end for messages.
func (w *Worker) Ended() string {
	last := ""
	if lines := w.Lines(); len(lines) > 0 {
		last = lines[len(lines)-1].Text
	}
	return fmt.Sprintf("%s: %v, last line: %s", filepath.Base(w.Log), w.cmd.ProcessState, last)
}

// AwaitStopped waits until the process has stopped itself (SIGSTOP), false when it
// ended or did not in time. It looks often: what follows is aimed.
func (w *Worker) AwaitStopped(limit time.Duration) bool {
	for begin := time.Now(); time.Since(begin) < limit; time.Sleep(100 * time.Microsecond) {
		select {
		case <-w.done:
			return false
		default:
		}
		if stateOf(w.cmd.Process.Pid) == 'T' {
			return true
		}
	}
	return false
}

// stateOf is the letter of a process's state, 0 when there is none.
func stateOf(pid int) byte {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	i := strings.LastIndexByte(string(b), ')')
	if i < 0 || i+2 >= len(b) {
		return 0
	}
	return b[i+2]
}
