package postgres

import (
	"os"
	"testing"

	"etl/internal/broken"
	"etl/internal/broken/brokentest"
)

// TestControls: without the guard of versions a replay shows older rows.
func TestControls(t *testing.T) {
	if os.Getenv("ETL_SLOW") == "" {
		t.Skip("it builds this program once more; ETL_SLOW=1 runs it")
	}
	brokentest.Notice(t,
		brokentest.Control{Rule: broken.VersionGuardOmitted, Test: "TestConformance/counter/a replay shows nothing older"},
		brokentest.Control{Rule: broken.VersionGuardOmitted, Test: "TestConformance/position/a replay shows nothing older"},
	)
}
