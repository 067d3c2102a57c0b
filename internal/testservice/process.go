package testservice

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// ProcessSpec describes a server that runs as a child process.
type ProcessSpec struct {
	Name string // for its folder
	UID  int    // the user it runs as; only root may name another than itself
	GID  int
	// Forks says that the server has child processes, which signals must reach too.
	// Without, a kill takes no look around first: it hits within microseconds.
	Forks bool
	// Command makes the server's command for its folder. It is called once a start.
	Command func(dir string) *exec.Cmd
	// Prepare fills a new folder before the first start; may be nil.
	Prepare func(ctx context.Context, dir string) error
}

// Process is a [Service] that runs as a child of this program.
type Process struct {
	spec ProcessSpec
	dir  string

	mu   sync.Mutex // guards pid and done: a test may kill while another goroutine waits
	pid  int
	done chan struct{} // closed when the process has been reaped
}

// StartProcess makes the server's folder and starts it; the caller awaits it.
func StartProcess(ctx context.Context, spec ProcessSpec) (*Process, error) {
	dir, err := newFolder(spec.Name, spec.UID, spec.GID)
	if err != nil {
		return nil, err
	}
	p := &Process{spec: spec, dir: dir}
	if spec.Prepare != nil {
		err = spec.Prepare(ctx, dir)
	}
	if err == nil {
		err = p.Restart(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", spec.Name, err), os.RemoveAll(dir))
	}
	return p, nil
}

// Dir is the server's folder: settings, data, log.
func (p *Process) Dir() string { return p.dir }

// Pid is the server's process id, for those who measure it.
func (p *Process) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}

// Restart starts the process again in its folder.
func (p *Process) Restart(ctx context.Context) error {
	if p.Alive(ctx) {
		return fmt.Errorf("%s still runs", p.spec.Name)
	}
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := p.spec.Command(p.dir)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, log, log
	cmd.SysProcAttr = p.attributes()
	return p.run(cmd)
}

func (p *Process) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the test program alone
	if os.Getuid() == 0 && p.spec.UID != 0 {
		attr.Credential = &syscall.Credential{Uid: uint32(p.spec.UID), Gid: uint32(p.spec.GID)}
	}
	setDeathSignal(attr)
	return attr
}

// run starts cmd on a thread that lives as long as the child: the death signal
// comes when the thread that forked ends, not the program.
func (p *Process) run(cmd *exec.Cmd) error {
	started, done := make(chan error, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(done)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pid, p.done = cmd.Process.Pid, done
	return nil
}

// Alive implements [Service].
func (p *Process) Alive(context.Context) bool {
	p.mu.Lock()
	done := p.done
	p.mu.Unlock()
	if done == nil {
		return false
	}
	select {
	case <-done:
		return false
	default:
		return true
	}
}

// signal sends sig to the process and, if it forks, everything below it.
// PostgreSQL's children lead process groups of their own, so a signal to the
// group would miss them.
func (p *Process) signal(ctx context.Context, sig syscall.Signal) ([]int, error) {
	if !p.Alive(ctx) {
		return nil, fmt.Errorf("%s does not run", p.spec.Name) // its number may belong to another by now
	}
	all := []int{p.Pid()}
	if p.spec.Forks && sig != syscall.SIGCONT { // it begins no child while it is looked at
		if err := p.send(all, syscall.SIGSTOP); err != nil {
			return nil, err
		}
	}
	if p.spec.Forks {
		all = descendants(p.Pid())
	}
	return all, p.send(all, sig)
}

func (p *Process) send(to []int, sig syscall.Signal) error {
	for _, pid := range to {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signal %v to %s: %w", sig, p.spec.Name, err)
		}
	}
	return nil
}

// Kill implements [Service].
func (p *Process) Kill(ctx context.Context) error {
	all, err := p.signal(ctx, syscall.SIGKILL)
	if err != nil {
		return err
	}
	return p.down(ctx, all)
}

// down waits for the end of the process, and of all below it.
func (p *Process) down(ctx context.Context, all []int) error {
	p.mu.Lock()
	done := p.done
	p.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
		return fmt.Errorf("%s does not end: %w", p.spec.Name, context.Cause(ctx))
	}
	return awaitGone(ctx, all)
}

// Quit sends SIGQUIT to the process alone, and returns when it is down: a server that
// forks is to end its children, and to leave its data as they are.
func (p *Process) Quit(ctx context.Context) error {
	if !p.Alive(ctx) {
		return fmt.Errorf("%s does not run", p.spec.Name)
	}
	all := descendants(p.Pid())
	if err := syscall.Kill(p.Pid(), syscall.SIGQUIT); err != nil {
		return fmt.Errorf("SIGQUIT to %s: %w", p.spec.Name, err)
	}
	return p.down(ctx, all)
}

// awaitGone waits for the children, which init reaps, not we. One that waits for a slow
// disk ends when that has answered.
func awaitGone(ctx context.Context, pids []int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for _, pid := range pids {
		for running(pid) {
			select {
			case <-ctx.Done():
				return fmt.Errorf("pid %d still runs after its signal", pid)
			case <-tick.C:
			}
		}
	}
	return nil
}

// Pause implements [Service].
func (p *Process) Pause(ctx context.Context) error {
	_, err := p.signal(ctx, syscall.SIGSTOP)
	return err
}

// Unpause implements [Service].
func (p *Process) Unpause(ctx context.Context) error {
	_, err := p.signal(ctx, syscall.SIGCONT)
	return err
}

// Stop implements [Service]. The data goes away anyway, so the end may be rude.
func (p *Process) Stop() error {
	var err error
	if ctx := context.Background(); p.Alive(ctx) {
		err = p.Kill(ctx)
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}

func (p *Process) logFile() string { return filepath.Join(p.dir, "server.log") }

// Log implements [Service].
func (p *Process) Log() string {
	f, err := os.Open(p.logFile())
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	return tail(f)
}

// tail reads at most the last 8 KiB.
func tail(r io.Reader) string {
	const limit = 8 << 10
	b, err := io.ReadAll(r)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-limit):])
}
