package demo

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"etl/stream"
)

// beside is how many demos run at the same time. They mostly wait.
const beside = "4"

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(beside)
	}
	goleak.VerifyTestMain(cleaning{m})
}

// cleaning removes the built worker behind the tests.
type cleaning struct{ m *testing.M }

func (c cleaning) Run() int {
	code := c.m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	return code
}

// built is the program a user runs, built once.
var built struct {
	once sync.Once
	dir  string
	err  error
}

func worker(t *testing.T) Executable {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and kills the real worker")
	}
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "etl-demo-test-"); built.err != nil {
			return
		}
		out, err := exec.Command("go", "build", "-o", filepath.Join(built.dir, "etl"), "etl/cmd/etl").CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("build the worker: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return Executable(filepath.Join(built.dir, "etl"))
}

// tempIsOurs makes the folder for temporary files one that the test can look into.
func tempIsOurs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	return dir
}

func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind in the temporary folder: %v %v", left, err)
	}
}

// patient is a clock in which a life may last five times as long: a machine may be busier
// than one on which people look at a demo, and the kill is to be where it was planned.
type patient struct{ stream.SystemClock }

func (c patient) Sleep(ctx context.Context, d time.Duration) error {
	if d >= killPatience {
		d *= 5
	}
	return c.SystemClock.Sleep(ctx, d)
}

func TestExactlyOnce(t *testing.T) {
	w := worker(t)
	dir := tempIsOurs(t)
	var out bytes.Buffer
	r, err := Run(t.Context(), Options{Out: &out, Start: w, Kills: 3, Records: 8_000, Clock: patient{}})
	t.Log("\n" + out.String())
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK || r.Missing != 0 || r.Duplicated != 0 || len(r.Kills) != 3 {
		t.Errorf("%+v", r)
	}
	nothingLeft(t, dir)
}

// Every point of the table is one that a worker comes to, in the pass that the table
// says, and none of them loses or doubles anything.
func TestEveryPoint(t *testing.T) {
	w := worker(t)
	var strong [2][]point // two demos beside each other
	for i, p := range others {
		s := &strong[i%2]
		if p.recovery || i < len(between) { // what recovers must have something to recover
			*s = append(*s, between[i%len(between)])
		}
		*s = append(*s, p)
	}
	for name, points := range map[string][]point{"exactly once": strong[0], "exactly once, the others": strong[1], "at least once": weak} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			r, err := Run(t.Context(), Options{Out: &out, Start: w, Records: 4000 * int64(len(points)), AtLeastOnce: name == "at least once", points: points, Clock: patient{}})
			t.Log("\n" + out.String())
			if err != nil {
				t.Fatal(err)
			}
			if !r.OK {
				t.Errorf("%+v", r)
			}
			for i, p := range points {
				if i >= len(r.Kills) || r.Kills[i] != p.name {
					t.Errorf("kill %d was to be at %s: %v", i, p.name, r.Kills)
					break
				}
			}
		})
	}
}

func TestAtLeastOnce(t *testing.T) {
	w := worker(t)
	dir := tempIsOurs(t)
	var out bytes.Buffer
	r, err := Run(t.Context(), Options{Out: &out, Start: w, AtLeastOnce: true, Kills: 2, Records: 10000, Seed: 3, Clock: patient{}})
	t.Log("\n" + out.String())
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK || r.Missing != 0 || r.Duplicated == 0 || !strings.Contains(out.String(), "what at-least-once means") {
		t.Errorf("%+v", r)
	}
	nothingLeft(t, dir)
}
