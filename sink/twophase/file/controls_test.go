package file

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"etl/internal/broken"
)

// controls are the sink's rules, with the tests of which at least one must notice that
// the rule is broken.
var controls = map[broken.Rule]string{
	broken.PartNotSynced:      "^TestPowerLoss$",
	broken.IntentOmitted:      "^(TestConformance/json,_partitions|TestConsumerMovesFilesAway$)",
	broken.PartReplaces:       "^TestStrangersFileStays$",
	broken.FenceIgnoresIntent: "^(TestConformance/json,_partitions|TestFenceMeetsIntent$)",
}

// TestControls breaks one rule at a time. Tests that notice nothing would prove nothing.
func TestControls(t *testing.T) {
	if testing.Short() || os.Getenv("ETL_BROKEN") != "" {
		t.Skip("builds the tests once more")
	}
	binary := filepath.Join(t.TempDir(), "broken.test")
	if out, err := exec.Command("go", "test", "-c", "-tags", "broken", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for rule, tests := range controls {
		cmd := exec.Command(binary, "-test.run="+tests, "-test.failfast", "-test.timeout=120s")
		cmd.Env = append(os.Environ(), "ETL_BROKEN="+string(rule))
		cmd.Dir = t.TempDir() // where failures are recorded
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("%s: nothing was noticed", rule)
			continue
		}
		t.Logf("%s: %.300s", rule, regexp.MustCompile(`(?m)^ +\w+\.go:\d+: .*$|^panic: .*$`).Find(out))
	}
}
