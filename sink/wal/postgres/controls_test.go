package postgres

import (
	"os"
	"testing"

	"etl/internal/broken"
	"etl/internal/broken/brokentest"
)

// TestControls: without its marker a delivery is repeated.
func TestControls(t *testing.T) {
	if os.Getenv("ETL_SLOW") == "" {
		t.Skip("it builds this program once more; ETL_SLOW=1 runs it")
	}
	brokentest.Notice(t,
		brokentest.Control{Rule: broken.MarkerOmitted, Test: "TestConformance/append/a commit can be repeated"},
		brokentest.Control{Rule: broken.MarkerNotRead, Test: "TestConformance/append/a commit can be repeated"},
	)
}
