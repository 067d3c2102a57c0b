package postgres

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"etl/internal/broken"
)

// TestControls: a build in which one rule is broken fails the rule of the suite that is
// there for it, and nothing else is needed to see it.
func TestControls(t *testing.T) {
	if os.Getenv("ETL_SLOW") == "" {
		t.Skip("it builds this program once more; ETL_SLOW=1 runs it")
	}
	bin := filepath.Join(t.TempDir(), "broken.test")
	if out, err := exec.Command("go", "test", "-c", "-tags", "broken", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for _, c := range []struct {
		rule broken.Rule
		test string
	}{
		{"", "prepared-append/a commit can be repeated"}, // the build itself is sound
		{broken.MarkerOmitted, "prepared-append/a commit can be repeated"},
		{broken.MarkerNotRead, "prepared-upsert/a commit can be repeated"},
		{broken.MarkerOmitted, "staged-append/a commit can be repeated"},
		{broken.MissingIsCommitted, "prepared-append/what is lost is said to be lost"},
		{broken.GidOfNewAttempt, "prepared-append/any process can commit"},
		{broken.PrepareTagUnchecked, "prepared-append/a row found bad in Finish comes with the next epoch"},
		{broken.StagedRowsDropped, "staged-append/any process can commit"},
	} {
		name := strings.ReplaceAll("TestConformance/"+c.test, " ", "_")
		cmd := exec.Command(bin, "-test.run", "^"+strings.ReplaceAll(name, "/", "$/^")+"$", "-test.v", "-test.timeout", "100s")
		cmd.Env = append(os.Environ(), "ETL_BROKEN="+string(c.rule), "ETL_SLOW=")
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		switch failed := strings.Contains(string(out), "--- FAIL: "+name+" "); {
		case strings.Contains(string(out), "--- SKIP: TestConformance"):
			t.Skip("without a server there is nothing to see")
		case err != nil && !errors.As(err, &exit):
			t.Fatal(err)
		case failed != (c.rule != ""):
			t.Errorf("with %q broken, %s: failed = %v\n%s", c.rule, name, failed, out)
		}
	}
}
