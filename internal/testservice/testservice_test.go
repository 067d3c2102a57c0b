package testservice

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestChoose(t *testing.T) {
	installed := func() error { return nil }
	missing := func() error { return errors.New("no java") }
	for _, c := range []struct {
		name    string
		want    Via
		env     string
		choices Choices
		got     Via
		err     string
	}{
		{"the environment's first", ViaAuto, "", Choices{Foreign: "host:1", Process: installed}, ViaForeign, ""},
		{"narrowed by the environment", ViaAuto, "process", Choices{Foreign: "host:1", Process: installed}, ViaProcess, ""},
		{"narrowed by the caller", ViaProcess, "container", Choices{Process: installed}, ViaProcess, ""},
		{"not installed", ViaProcess, "", Choices{Process: missing}, ViaProcess, "no java"},
		{"nobody else's", ViaForeign, "", Choices{Process: installed}, "", "no server is named"},
		{"misspelt", ViaAuto, "docker", Choices{Process: installed}, "", "want container or process"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("ETL_TEST_VIA", c.env)
			got, err := Choose(t.Context(), c.want, c.choices)
			if got != c.got || fmt.Sprint(err) != "<nil>" && c.err == "" || c.err != "" && !strings.Contains(fmt.Sprint(err), c.err) {
				t.Errorf("got %q, %v; want %q, %q", got, err, c.got, c.err)
			}
		})
	}
}

// fakeTB notes how a test was ended.
type fakeTB struct {
	testing.TB
	end string
}

func (f *fakeTB) Helper()                   {}
func (f *fakeTB) Skipf(s string, a ...any)  { f.end = "skip: " + fmt.Sprintf(s, a...) }
func (f *fakeTB) Fatalf(s string, a ...any) { f.end = "fatal: " + fmt.Sprintf(s, a...); panic(f) }

func TestSkipFailsWhereServersArePromised(t *testing.T) {
	end := func() (end string) {
		f := &fakeTB{}
		defer func() { _ = recover(); end = f.end }()
		Skip(f, "this-test", "no %s", "java")
		return f.end
	}
	t.Setenv("ETL_REQUIRE_REAL", "1")
	if got := end(); !strings.HasPrefix(got, "fatal: ") || !strings.Contains(got, "no java") {
		t.Errorf("required: %s", got)
	}
}

// family is a server with a child that leads a process group of its own, as PostgreSQL's do.
func family(t *testing.T) *Process {
	t.Helper()
	p, err := StartProcess(t.Context(), ProcessSpec{
		Name: "family", UID: os.Getuid(), GID: os.Getgid(), Forks: true,
		Command: func(string) *exec.Cmd {
			return exec.Command("sh", "-c", "echo >>starts; setsid sleep 1000 & echo $!; wait")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(p.Dir()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the folder after Stop: %v", err)
		}
	})
	return p
}

// child waits for the number that the server wrote into its log.
func child(t *testing.T, p *Process, nth int) (pid int) {
	t.Helper()
	err := Await(t.Context(), p, time.Minute, func(context.Context) error {
		numbers := strings.Fields(p.Log())
		if len(numbers) < nth {
			return errors.New("no child yet")
		}
		n, err := strconv.Atoi(numbers[nth-1])
		pid = n
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestKillReachesEveryProcess(t *testing.T) {
	p := family(t)
	first := child(t, p, 1)
	if !running(first) {
		t.Fatal("the child does not run")
	}
	if err := p.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if running(first) || p.Alive(t.Context()) {
		t.Error("something runs after Kill returned")
	}
	if err := p.Kill(t.Context()); err == nil {
		t.Error("a dead server was killed")
	}
	if err := p.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	child(t, p, 2)
	starts, err := os.ReadFile(filepath.Join(p.Dir(), "starts"))
	if err != nil || string(starts) != "\n\n" {
		t.Errorf("the restart used another folder: %q, %v", starts, err)
	}
	if err := p.Restart(t.Context()); err == nil {
		t.Error("a running server was started again")
	}
}

// A server that begins a child while it is looked at leaves none behind: that one would go
// on with its statement, and keep what the next start of the server needs.
func TestKillReachesChildrenThatAreBeingBegun(t *testing.T) {
	p, err := StartProcess(t.Context(), ProcessSpec{
		Name: "fertile", UID: os.Getuid(), GID: os.Getgid(), Forks: true,
		Command: func(string) *exec.Cmd {
			return exec.Command("sh", "-c", "i=0; while [ $i -lt 500 ]; do i=$((i+1)); setsid sleep 60 & echo $!; done; wait")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	child(t, p, 20)
	if err := p.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, number := range strings.Fields(p.Log()) {
		pid, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(err)
		}
		if running(pid) {
			t.Errorf("child %d runs after Kill returned", i)
		}
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

func TestAwaitTellsDeathFromSlowness(t *testing.T) {
	p, err := StartProcess(t.Context(), ProcessSpec{
		Name: "dead", UID: os.Getuid(), GID: os.Getgid(),
		Command: func(string) *exec.Cmd { return exec.Command("sh", "-c", "echo no such port; exit 1") },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	never := func(context.Context) error { return errors.New("connection refused") }
	err = Await(t.Context(), p, time.Minute, never)
	if err == nil || !strings.Contains(err.Error(), "the server ended") || !strings.Contains(err.Error(), "no such port") {
		t.Errorf("dead: %v", err)
	}
	err = Await(t.Context(), Foreign{}, 10*time.Millisecond, never)
	if err == nil || !strings.Contains(err.Error(), "not ready within 10ms") || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("slow: %v", err)
	}
}

func TestFoldersOfDeadProgramsAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	cmd := exec.Command("sh", "-c", "echo $$")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := bufio.NewReader(strings.NewReader(string(out))).ReadString('\n')
	dead := filepath.Join(os.TempDir(), folderPrefix+strings.TrimSpace(pid)+"-kafka-1")
	if err := os.MkdirAll(filepath.Join(dead, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := newFolder("x", os.Getuid(), os.Getgid())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the dead program's folder: %v", err)
	}
	sweepFolders()
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("our own folder: %v", err)
	}
}

// 500 of 15000 ports, drawn without a memory, would hardly ever differ.
func TestFreePortIsGivenOnce(t *testing.T) {
	ports, err := FreePorts(500)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, p := range ports {
		if seen[p] || p < 15000 || p >= 32768 {
			t.Errorf("port %d twice or out of range", p)
		}
		seen[p] = true
	}
}

// What another program sees of a port while its server is not there yet, or not there for
// a while.
func TestFreePortIsKept(t *testing.T) {
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	if u, err := net.ListenPacket("udp4", Loopback(port)); err == nil {
		_ = u.Close() // nothing was written
		t.Error("another program would be given this port, too")
	}
	l, err := net.Listen("tcp4", Loopback(port))
	if err != nil {
		t.Fatalf("no server can listen there: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// A proxy that was down comes up although its port is in use for a moment: a child that is
// being begun may hold a copy of the socket.
func TestProxyComesUpWhenItsPortIsFree(t *testing.T) {
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	p, err := StartProxy(Loopback(port), Loopback(1))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.Down()
	copied, err := net.Listen("tcp4", Loopback(port))
	if err != nil {
		t.Fatal(err)
	}
	waits := 0
	again := func() bool {
		if waits++; waits == 3 {
			_ = copied.Close() // nothing was written
		}
		return waits < 1000
	}
	if err := p.up(again); err != nil || waits < 3 {
		t.Errorf("after %d waits: %v", waits, err)
	}
	c, err := net.Dial("tcp4", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close() // nothing was written
}
