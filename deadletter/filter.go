package deadletter

import (
	"slices"
	"time"

	"etl/stream"
)

// Filter selects letters. The zero value selects all.
type Filter struct {
	// Components and Codes are lists of which one has to be the letter's; empty for
	// any.
	Components, Codes []string
	// Since leaves out letters of records with an earlier time; zero for none.
	Since time.Time
}

// Takes reports whether the filter selects l.
func (f *Filter) Takes(l *stream.Letter) bool {
	switch {
	case len(f.Components) > 0 && !slices.Contains(f.Components, string(l.Component)):
	case len(f.Codes) > 0 && !slices.Contains(f.Codes, l.Code):
	case !f.Since.IsZero() && l.Timestamp < f.Since.UnixMilli():
	default:
		return true
	}
	return false
}
