package demo

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Executable starts the program at a path. The processes are in a group of their own,
// so that Ctrl-C in a terminal reaches the parent alone, which then ends them.
type Executable string

// Start implements Starter.
func (e Executable) Start(_ context.Context, c Command) (Process, error) {
	cmd := exec.Command(string(e), c.Args...)
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Stdout, cmd.Stderr = c.Out, c.Out
	cmd.SysProcAttr = ownGroup()
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	return p, <-started
}

type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	exit Exit
}

// run starts the process and waits for its end, on one thread: on Linux the process
// is killed when the thread that started it ends.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	if err != nil {
		close(p.done)
		started <- err
		return
	}
	started <- nil
	p.exit = exitOf(p.cmd.Wait())
	close(p.done)
}

func exitOf(err error) Exit {
	var e *exec.ExitError
	if !errors.As(err, &e) {
		if err != nil {
			return Exit{Code: 1}
		}
		return Exit{}
	}
	ws, ok := e.Sys().(syscall.WaitStatus)
	return Exit{Code: e.ExitCode(), Killed: ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL}
}

// Wait implements Process.
func (p *process) Wait() Exit {
	<-p.done
	return p.exit
}

// Kill implements Process.
func (p *process) Kill() {
	if p.cmd.Process != nil {
		_ = p.cmd.Process.Kill() // it may have ended
	}
}
