package kafkatxn

import (
	"testing"

	"etl/internal/broken"
	"etl/internal/broken/brokentest"
)

// To heal and to clean is only needed when a broker dies at one moment of a few
// milliseconds. The torture waits for that on real brokers; here a fake one has skipped the
// markers, and a build that leaves them out must be noticed each time.
func TestControls(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds the tests once more")
	}
	brokentest.Notice(t,
		brokentest.Control{Rule: broken.NoHeal, Test: "TestHealWritesTheMarkersThatWereSkipped"},
		brokentest.Control{Rule: broken.FencedIsFatal, Test: "TestReusedSlotIsResolvedByMarker/kfake"},
		brokentest.Control{Rule: broken.NoClean, Test: "TestFenceWritesTheMarkersThatAnAbortLeftOut"},
	)
}
