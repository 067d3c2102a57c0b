package postgres

import (
	"testing"

	"etl/internal/broken"
	"etl/internal/broken/brokentest"
)

// TestControls: without the guard of versions a replay shows older rows.
func TestControls(t *testing.T) {
	brokentest.Slow(t)
	brokentest.Notice(t,
		brokentest.Control{Rule: broken.VersionGuardOmitted, Test: "TestConformance/counter/a replay shows nothing older"},
		brokentest.Control{Rule: broken.VersionGuardOmitted, Test: "TestConformance/position/a replay shows nothing older"},
	)
}
