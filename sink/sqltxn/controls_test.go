package sqltxn

import (
	"testing"

	"etl/internal/broken"
	"etl/internal/broken/brokentest"
)

// The fence is a second line: the log refuses what a fenced process would publish, so that
// whole jobs stay exact without it, as long as nobody is stopped between the two. Here it
// stands alone.
func TestControls(t *testing.T) {
	brokentest.Slow(t)
	brokentest.Notice(t,
		brokentest.Control{Rule: broken.FenceUnchecked, Test: "TestFence"},
		brokentest.Control{Rule: broken.FenceUnchecked, Test: "TestSiftMergeIsFenced"},
	)
}
