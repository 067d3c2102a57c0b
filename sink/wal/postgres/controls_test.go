package postgres

import (
	"testing"

	"etl/internal/broken"
	"etl/internal/broken/brokentest"
)

// TestControls: without its marker a delivery is repeated.
func TestControls(t *testing.T) {
	brokentest.Slow(t)
	brokentest.Notice(t,
		brokentest.Control{Rule: broken.MarkerOmitted, Test: "TestConformance/append/a commit can be repeated"},
		brokentest.Control{Rule: broken.MarkerNotRead, Test: "TestConformance/append/a commit can be repeated"},
	)
}
