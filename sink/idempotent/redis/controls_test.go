package redis

import (
	"testing"

	"etl/internal/broken"
	"etl/internal/broken/brokentest"
)

// TestControls: without the guard of versions a replay shows older values.
func TestControls(t *testing.T) {
	brokentest.Slow(t)
	brokentest.Notice(t, brokentest.Control{Rule: broken.VersionGuardOmitted, Test: "TestConformance/string/a replay shows nothing older"})
}
