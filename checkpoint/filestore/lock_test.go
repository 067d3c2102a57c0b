package filestore_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"etl/checkpoint"
	"etl/checkpoint/filestore"
	"etl/stream"
)

// holdLock is the other process of TestLockOfAnotherProcess.
func holdLock(dir string) {
	st, err := filestore.Open(world(stream.SystemFS{}), dir)
	if err == nil {
		_, _, err = st.Lock(context.Background(), checkpoint.Holder{Host: "other", PID: os.Getpid(), Attempt: 7}, false)
	}
	fmt.Println("holding", err)
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
}

// TestLockOfAnotherProcess: a stopped process keeps the lock, a killed one loses it.
func TestLockOfAnotherProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "job")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "FILESTORE_TEST_HOLD="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || strings.TrimSpace(line) != "holding <nil>" {
		t.Fatalf("the other process: %q, %v", line, err)
	}
	st := open(t, stream.SystemFS{}, dir)
	try := func() *checkpoint.Holder {
		t.Helper()
		unlock, held, err := st.Lock(context.Background(), checkpoint.Holder{Host: "me"}, false)
		if err != nil {
			t.Fatal(err)
		}
		if unlock != nil {
			if err := unlock(); err != nil {
				t.Fatal(err)
			}
		}
		return held
	}
	if held := try(); held == nil || held.PID != cmd.Process.Pid || held.Attempt != 7 {
		t.Fatalf("while the other runs, the holder is %v", held)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if held := try(); held == nil {
		t.Fatal("a stopped process lost its lock")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if held := try(); held != nil {
		t.Fatalf("a dead process holds the lock: %v", held)
	}
}
