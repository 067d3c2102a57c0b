package redis

import (
	"os"
	"testing"

	"etl/internal/broken"
	"etl/internal/broken/brokentest"
)

// TestControls: without the guard of versions a replay shows older values.
func TestControls(t *testing.T) {
	if os.Getenv("ETL_SLOW") == "" {
		t.Skip("it builds this program once more; ETL_SLOW=1 runs it")
	}
	brokentest.Notice(t, brokentest.Control{Rule: broken.VersionGuardOmitted, Test: "TestConformance/string/a replay shows nothing older"})
}
