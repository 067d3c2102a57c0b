package integration

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"etl/internal/kafkatest"
	"etl/internal/pgtest"
	"etl/internal/testservice"
)

// The examples run as their pages say: the very commands, one after the other.
func TestExamples(t *testing.T) {
	t.Parallel()
	b := strict(t)
	for _, name := range []string{"word-count", "user-behavior", "orders-to-files"} {
		out := runPage(t, filepath.Join("..", "examples", name, "README.md"), b.Addr())
		page, err := os.ReadFile(filepath.Join("..", "examples", name, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range promised(string(page)) {
			if !strings.Contains(out, row) {
				t.Errorf("%s: the output has no %s", name, row)
			}
		}
		if strings.Count(out, "missing 0  duplicated 0") < 2 {
			t.Errorf("%s: no recount", name)
		}
		if t.Failed() {
			t.Log(out)
		}
	}
}

// Those that write to PostgreSQL do, too. Each has an empty database for itself.
func TestPostgresExamples(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("psql"); err != nil {
		testservice.Skip(t, "psql", "%v", err)
	}
	for name, more := range map[string][]string{
		"user-counts-postgres": {"exactly once (two_phase, visible every 2s)", "strategy auto"},
		"orders-fan-out": {"orders -> priced -> table: exactly once (two_phase, visible every 2s)", "orders -> priced -> lake: exactly once", "orders, dead letters -> rejected: exactly once",
			`{"id":4,"customer":"ann","status":"paid","total":0.3,"at":"2026-11-29T09:15:00+01:00"}`, "day=2026-11-28", "json.syntax", "expr.type", "OK (not checked at all: rejected)"},
	} {
		page := filepath.Join("..", "examples", name, "README.md")
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		out := runPage(t, page, kafkatest.Shared(t).Addr(), "PG_DSN="+pgtest.Shared(t).NewDatabase(t), "ORDERS_DIR="+t.TempDir())
		for _, row := range append(promised(string(text)), more...) {
			if !strings.Contains(out, row) {
				t.Errorf("%s: the output has no %s", name, row)
			}
		}
		if strings.Count(out, "missing 0  duplicated 0") < 2 {
			t.Errorf("%s: no recount", name)
		}
		if t.Failed() {
			t.Log(out)
		}
	}
}

// The example that sends to an endpoint does, too: to a receiver on a free port.
func TestWebhookExample(t *testing.T) {
	t.Parallel()
	page := filepath.Join("..", "examples", "webhook", "README.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	h := newHook(t)
	h.close() // its port is free now
	out := runPage(t, page, kafkatest.Shared(t).Addr(), "HOOK="+h.addr)
	for _, row := range append(promised(string(text)), "at least once (wal, visible every 2s)", "duplicates carry the same key", "missing 0  duplicated 0  altered 0  out of order 0  behind 0  uncommitted 0   OK\n",
		"endpoint hook: what it wrote down in 2 files, and 1 rows that it refused", `"status":422,"answer":"the total is negative\n","row":{"id":3,"total":-1}`) {
		if !strings.Contains(out, row) {
			t.Errorf("the output has no %s\n%s", row, out)
		}
	}
}

// promised are the rows that a page says come out.
func promised(page string) (rows []string) {
	if _, rest, ok := strings.Cut(page, "```json\n"); ok {
		block, _, _ := strings.Cut(rest, "```")
		return strings.Split(strings.TrimSpace(block), "\n")
	}
	_, rest, _ := strings.Cut(page, "the counts are: ")
	for _, m := range regexp.MustCompile(`(\w+) (\d+)`).FindAllStringSubmatch(rest, -1) {
		rows = append(rows, `{"word":"`+m[1]+`","n":`+m[2]+`}`)
	}
	return rows
}

// pages is held by the page that runs: all jobs of pages listen on the default address.
var pages sync.Mutex

// runPage runs the shell commands of a page as one script, and returns what they
// print.
func runPage(t *testing.T, page, broker string, vars ...string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	script := "set -eu\n"
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		script += m[1]
	}
	folder := toolFolder(t) // the first one builds the program, which takes its time
	pages.Lock()
	defer pages.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience) // pages wait for what may never come
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", script+"wait\n")
	cmd.Dir = ".."
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"), "KAFKA_BROKERS="+broker, "ETL_DATA_DIR="+t.TempDir(), "NO_COLOR=1")
	cmd.Env = append(cmd.Env, vars...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", page, err, out)
	}
	return string(out)
}

// toolFolder is a folder with the programs that pages name.
func toolFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	links := map[string]string{"etl": program(t)}
	for name := range tools {
		links[name] = self
	}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
