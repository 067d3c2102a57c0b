package testservice

import (
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// watch removes a container when this program dies without doing it. It is a
// shell that reads from a pipe whose other end only we hold: the kernel closes
// that end however we die. A line on the pipe says that all is well.
type watch struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

const watchScript = `read -r word || exec docker rm -f -v "$1" >/dev/null 2>&1`

// startWatch is nil without a docker command; scripts/dockerd.sh clean finds such leftovers by label.
func startWatch(containerID string) (*watch, error) {
	if _, err := exec.LookPath("docker"); err != nil {
		return nil, nil
	}
	cmd := exec.Command("sh", "-c", watchScript, "watch", containerID)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C must not reach it
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the container's watcher: %w", err)
	}
	return &watch{cmd: cmd, pipe: pipe}, nil
}

// release ends the watcher of a container that is gone.
func (w *watch) release() error {
	if _, err := io.WriteString(w.pipe, "done\n"); err != nil {
		return err
	}
	return w.cmd.Wait()
}
