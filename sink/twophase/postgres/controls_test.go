package postgres

import (
	"testing"

	"etl/internal/broken"
	"etl/internal/broken/brokentest"
)

// TestControls breaks one rule of the sink at a time.
func TestControls(t *testing.T) {
	brokentest.Slow(t)
	var controls []brokentest.Control
	for _, c := range []struct {
		rule broken.Rule
		test string
	}{
		{broken.MarkerOmitted, "prepared-append/a commit can be repeated"},
		{broken.MarkerNotRead, "prepared-upsert/a commit can be repeated"},
		{broken.MarkerOmitted, "staged-append/a commit can be repeated"},
		{broken.MissingIsCommitted, "prepared-append/what is lost is said to be lost"},
		{broken.GidOfNewAttempt, "prepared-append/any process can commit"},
		{broken.PrepareTagUnchecked, "prepared-append/a row found bad in Finish comes with the next epoch"},
		{broken.RetryInTransaction, "prepared-append/a row found bad in Finish comes with the next epoch"},
		{broken.StagedRowsDropped, "staged-append/any process can commit"},
	} {
		controls = append(controls, brokentest.Control{Rule: c.rule, Test: "TestConformance/" + c.test})
	}
	brokentest.Notice(t, controls...)
}
