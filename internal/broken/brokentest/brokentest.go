// Package brokentest runs the tests of a package once more, in a build in which one rule
// of the protocol is broken at a time. Tests that notice nothing would prove nothing.
package brokentest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"etl/internal/broken"
)

// Control is a rule, and the test of the package that is there to notice when it is
// broken: its name as in the source, parts of it after a slash.
type Control struct {
	Rule broken.Rule
	Test string
}

// Slow leaves the calling test to make torture: it builds its package once more, and its
// tests need servers.
func Slow(t *testing.T) {
	t.Helper()
	if os.Getenv("ETL_SLOW") == "" {
		t.Skip("it builds this program once more; ETL_SLOW=1 runs it, and make torture")
	}
}

// Notice checks that each test fails when its rule is broken, and passes in the same build
// when none is. Where the test is skipped for want of a server, so is this one.
func Notice(t *testing.T, controls ...Control) {
	t.Helper()
	if os.Getenv("ETL_BROKEN") != "" {
		t.Skip("this is the build that is broken")
	}
	binary, sound := Build(t, "broken"), map[string]bool{}
	for _, c := range controls {
		if !sound[c.Test] {
			sound[c.Test] = true
			if out, failed := run(t, binary, Control{Test: c.Test}); failed {
				t.Errorf("%s fails although nothing is broken:\n%s", c.Test, out)
			}
		}
		out, failed := run(t, binary, c)
		if !failed {
			t.Errorf("%s is broken, and %s did not notice:\n%s", c.Rule, c.Test, out)
			continue
		}
		t.Logf("%s: %.300s", c.Rule, finding.Find(out))
	}
}

// finding is what a failed test says first.
var finding = regexp.MustCompile(`(?m)^ +\w+\.go:\d+: .*$|^panic: .*$`)

// Build compiles the tests of the package that is tested, and returns the binary.
func Build(t testing.TB, tags string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "broken.test")
	if out, err := exec.Command("go", "test", "-c", "-tags", tags, "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build with -tags %s: %v\n%s", tags, err, out)
	}
	return binary
}

func run(t *testing.T, binary string, c Control) (out []byte, failed bool) {
	t.Helper()
	name := strings.ReplaceAll(c.Test, " ", "_")
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	cmd := exec.Command(binary, "-test.run="+strings.Join(parts, "/"), "-test.v", "-test.failfast", "-test.timeout=200s")
	cmd.Env = append(os.Environ(), "ETL_BROKEN="+string(c.Rule), "ETL_SLOW=")
	cmd.Dir = "."
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	switch text := string(out); {
	case strings.Contains(text, "--- SKIP: "+name+" "), strings.Contains(text, "--- SKIP: "+strings.Split(name, "/")[0]+" "):
		t.Skipf("%s is skipped here", c.Test)
	case err == nil && !strings.Contains(text, "--- PASS: "+name+" "):
		t.Fatalf("there is no test %s:\n%s", c.Test, text)
	}
	return out, err != nil
}
