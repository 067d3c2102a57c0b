package verify

import (
	"fmt"
	"io"
	"strings"
)

// Kind is what is wrong with a row.
type Kind string

// The kinds. Behind and Uncommitted are no faults of a job that is running.
const (
	Missing     Kind = "missing"
	Duplicated  Kind = "duplicated"
	Altered     Kind = "altered"
	OutOfOrder  Kind = "out_of_order"
	Behind      Kind = "behind"
	Uncommitted Kind = "uncommitted"
	// Unread is a disagreement between the two ways of reading a topic, or a
	// record that a reader got twice or at the wrong place.
	Unread Kind = "unread"
)

// Finding is one row that is not as it should be, or the place where it should be.
type Finding struct {
	Kind      Kind   `json:"kind"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Key       string `json:"key,omitempty"`
	// File and Row, from 1, are the place in a file sink; Partition and Offset count its
	// directories and their rows then.
	File string `json:"file,omitempty"`
	Row  int64  `json:"row,omitempty"`
	// Place is where a row lies in a table.
	Place string `json:"place,omitempty"`
	Why   string `json:"why"`
}

// String returns the finding on one line.
func (f Finding) String() string {
	s := fmt.Sprintf("%s %s@%d", f.Kind, partitionName(f.Topic, f.Partition), f.Offset)
	if f.File != "" {
		s = fmt.Sprintf("%s %s row %d", f.Kind, f.File, f.Row)
	}
	if f.Place != "" {
		s = fmt.Sprintf("%s %s", f.Kind, f.Place)
	}
	if f.Key != "" {
		s += fmt.Sprintf(" key %q", f.Key)
	}
	return s + ": " + f.Why
}

// Counts are numbers of rows.
type Counts struct {
	Missing    int64 `json:"missing"`
	Duplicated int64 `json:"duplicated"`
	// Altered rows are explained by no input: other bytes, or a wrong count.
	Altered    int64 `json:"altered"`
	OutOfOrder int64 `json:"out_of_order"`
	// Behind rows are expected and not there yet, Uncommitted ones are written and
	// not visible yet.
	Behind      int64 `json:"behind"`
	Uncommitted int64 `json:"uncommitted"`
	// Unread counts disagreements between readers.
	Unread int64 `json:"unread,omitempty"`
}

func (c *Counts) add(k Kind, n int64) {
	switch k {
	case Missing:
		c.Missing += n
	case Duplicated:
		c.Duplicated += n
	case Altered:
		c.Altered += n
	case OutOfOrder:
		c.OutOfOrder += n
	case Behind:
		c.Behind += n
	case Uncommitted:
		c.Uncommitted += n
	case Unread:
		c.Unread += n
	}
}

// SinkResult is what was found in one sink topic.
type SinkResult struct {
	Topic string `json:"topic"`
	Rows  int64  `json:"rows"`
	Counts

	// atLeastOnce says that a job that went back writes rows again, also with other results;
	// repeats, that a row may be there again, as it was.
	atLeastOnce, repeats bool
	// invented are those of Altered that no repetition explains: rows without an aggregate
	// that no input gives.
	invented int64
}

// Open is a partition whose last stable offset stands before its end: a
// transaction is open, or hanging.
type Open struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Stable    int64  `json:"last_stable_offset"`
	End       int64  `json:"end_offset"`
	// Producers are those with an open transaction, as the leader knows them.
	Producers []string `json:"producers,omitempty"`
}

// Result is the outcome of a recount. OK means that everything in Checked holds; it says
// nothing of the sinks in LeftOut.
type Result struct {
	OK         bool  `json:"ok"`
	RecordsIn  int64 `json:"records_in"`
	RecordsOut int64 `json:"records_out"`
	Counts
	Checked    []string `json:"checked"`
	NotChecked []string `json:"not_checked"`
	// LeftOut are the sinks of which nothing was compared; NotChecked says why.
	LeftOut  []string     `json:"sinks_left_out"`
	Sinks    []SinkResult `json:"sinks"`
	Open     []Open       `json:"open_transactions,omitempty"`
	Examples []Finding    `json:"examples,omitempty"`

	limit int // of Examples
}

// found counts n rows and keeps the finding as an example.
func (r *Result) found(s *SinkResult, n int64, f Finding) {
	if n == 0 {
		return
	}
	r.add(f.Kind, n)
	if s != nil {
		s.add(f.Kind, n)
	}
	if n > 0 && len(r.Examples) < r.limit {
		r.Examples = append(r.Examples, f)
	}
}

func (r *Result) checked(format string, args ...any) {
	r.Checked = append(r.Checked, fmt.Sprintf(format, args...))
}

func (r *Result) notChecked(format string, args ...any) {
	r.NotChecked = append(r.NotChecked, fmt.Sprintf(format, args...))
}

// leftOut says that nothing of a sink was compared, and why.
func (r *Result) leftOut(sink, format string, args ...any) {
	r.LeftOut = append(r.LeftOut, sink)
	r.notChecked(format, args...)
}

// judge sets OK. A finished job must be complete; duplicates are no fault of a sink
// that promises at least once, and neither is what follows from them, in order and counts.
func (r *Result) judge(o Options) {
	faults := r.Missing + r.Unread
	for _, s := range r.Sinks {
		switch {
		case s.atLeastOnce:
			faults += s.invented
		case s.repeats:
			faults += s.Altered + s.OutOfOrder
		default:
			faults += s.Duplicated + s.Altered + s.OutOfOrder
		}
	}
	if o.Finished {
		faults += r.Behind + r.Uncommitted + int64(len(r.Open))
	}
	r.OK = faults == 0
}

// Render writes r for people.
func (r *Result) Render(w io.Writer) error {
	var b strings.Builder
	word := "OK"
	if !r.OK {
		word = "NOT OK"
	}
	if len(r.LeftOut) > 0 {
		word += " (not checked at all: " + strings.Join(r.LeftOut, ", ") + ")"
	}
	fmt.Fprintf(&b, "read %s records, found %s rows\n", thousands(r.RecordsIn), thousands(r.RecordsOut))
	fmt.Fprintf(&b, "missing %s  duplicated %s  altered %s  out of order %s  behind %s  uncommitted %s   %s\n", thousands(r.Missing), thousands(r.Duplicated),
		thousands(r.Altered), thousands(r.OutOfOrder), thousands(r.Behind), thousands(r.Uncommitted), word)
	if r.Unread > 0 {
		fmt.Fprintf(&b, "two ways of reading disagree on %s records\n", thousands(r.Unread))
	}
	for _, o := range r.Open {
		fmt.Fprintf(&b, "open transaction: %s, last stable offset %d of %d %s\n", partitionName(o.Topic, o.Partition), o.Stable, o.End, strings.Join(o.Producers, ", "))
	}
	for _, s := range r.Checked {
		fmt.Fprintf(&b, "checked      %s\n", s)
	}
	for _, s := range r.NotChecked {
		fmt.Fprintf(&b, "not checked  %s\n", s)
	}
	for _, f := range r.Examples {
		fmt.Fprintf(&b, "example      %s\n", f)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// thousands writes n with commas.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
