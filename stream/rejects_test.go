package stream

import (
	"strconv"
	"testing"
)

// TestRejectsAreBounded: an operator that puts values into codes makes no series without
// end, and none of its records is forgotten.
func TestRejectsAreBounded(t *testing.T) {
	var r Rejects
	for i := range 1000 {
		r.Add("skip", "user."+strconv.Itoa(i))
	}
	r.Add("skip", "user.0")
	all, sum := r.Counts(), int64(0)
	for _, n := range all {
		sum += n
	}
	if len(all) > maxRejects+1 || sum != 1001 || all[Reject{"skip", "user.0"}] != 2 || all[Reject{"skip", codeOther}] != 1000-maxRejects {
		t.Errorf("%d kinds, %d records: %v", len(all), sum, all)
	}
}
