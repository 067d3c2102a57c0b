package kafkatxn

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The heal is only needed when a broker dies at one moment of a few milliseconds. The
// torture waits for that on real brokers; here a fake one has skipped the markers, and a
// build that does not heal must be noticed each time.
func TestControlNoHeal(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the tests again")
	}
	const test = "TestHealWritesTheMarkersThatWereSkipped"
	binary := filepath.Join(t.TempDir(), "broken.test")
	if out, err := exec.Command("go", "test", "-c", "-tags", "broken", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for rules, noticed := range map[string]bool{"": false, "no-heal": true} {
		cmd := exec.Command(binary, "-test.run=^"+test+"$", "-test.timeout=60s", "-test.v")
		cmd.Env = append(os.Environ(), "ETL_BROKEN="+rules)
		out, err := cmd.CombinedOutput()
		if !strings.Contains(string(out), "=== RUN   "+test) {
			t.Fatalf("it did not run: %v\n%s", err, out)
		}
		if (err != nil) != noticed {
			t.Errorf("with the broken rules %q: %v\n%s", rules, err, out)
		}
	}
}
