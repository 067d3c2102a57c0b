package file

import (
	"testing"

	"etl/internal/broken"
	"etl/internal/broken/brokentest"
)

// TestControls breaks one rule of the sink at a time.
func TestControls(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds the tests once more")
	}
	brokentest.Notice(t,
		brokentest.Control{Rule: broken.PartNotSynced, Test: "TestPowerLoss"},
		brokentest.Control{Rule: broken.IntentOmitted, Test: "TestConsumerMovesFilesAway"},
		brokentest.Control{Rule: broken.PartReplaces, Test: "TestStrangersFileStays"},
		brokentest.Control{Rule: broken.FenceIgnoresIntent, Test: "TestFenceMeetsIntent"},
	)
}
