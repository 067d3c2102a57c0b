package torture

import (
	"fmt"
	"strings"
)

// The checkers, by their numbers in docs/torture.md.
const (
	Missing    = "C1 missing"
	Duplicated = "C1 duplicated"
	Stranger   = "C1 unknown"
	Order      = "C2 order"
	Reader     = "C3 reader"
	Counting   = "C4 counts"
	Leftovers  = "C9 leftovers"
	Restorable = "C11 restorable"
	Owners     = "C12 owners"
	Altered    = "C14 altered"
	Honest     = "C15 honest"
	Alive      = "C16 liveness"
	Logs       = "C18 logs"
	ExitCode   = "C19 exit code"
)

// Verdict collects what checkers found: how often, and the first few in words.
type Verdict struct {
	Found map[string]int
	Words []string
}

// saidPerChecker is how many findings of one checker are told in words.
const saidPerChecker = 5

// Add notes a finding.
func (v *Verdict) Add(checker, format string, args ...any) {
	if v.Found == nil {
		v.Found = map[string]int{}
	}
	v.Found[checker]++
	if v.Found[checker] <= saidPerChecker {
		v.Words = append(v.Words, checker+": "+fmt.Sprintf(format, args...))
	}
}

// count is how many checkers of this name found something: 0 or 1.
func (v *Verdict) count(checker string) int { return min(1, v.Found[checker]) }

// OK says that nothing was found.
func (v *Verdict) OK() bool { return len(v.Found) == 0 }

// Merge adds another verdict.
func (v *Verdict) Merge(o Verdict) {
	for c, n := range o.Found {
		if v.Found == nil {
			v.Found = map[string]int{}
		}
		v.Found[c] += n
	}
	v.Words = append(v.Words, o.Words...)
}

func (v Verdict) String() string {
	if v.OK() {
		return "missing 0, duplicated 0, nothing found"
	}
	return fmt.Sprintf("%v\n  %s", v.Found, strings.Join(v.Words, "\n  "))
}
