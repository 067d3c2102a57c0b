package torture

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"slices"
	"time"
)

// Report prints what the run came to.
func (s *Suite) Report(w io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(s.parts, func(a, b part) int { return cmp.Compare(b.Took, a.Took) })
	left, earlier := []string{}, 0
	for _, p := range s.parts {
		if p.left {
			left = append(left, p.Name)
		}
		if p.earlier {
			earlier++
		}
	}
	fmt.Fprintf(w, "\ntorture: seed %d, %d parts, %d of them done by an earlier run, %d left for want of time\n%s", s.Seed, len(s.parts), earlier, len(left), s.total)
	for _, p := range s.parts[:min(5, len(s.parts))] {
		fmt.Fprintf(w, "  %-60s %v\n", p.Name, p.Took.Round(100*time.Millisecond))
	}
	for _, name := range left {
		fmt.Fprintf(w, "  shortfall: no time for %s\n", name)
	}
	if len(left) > 0 {
		fmt.Fprintf(w, "  go on with the rest: ETL_TORTURE_STATE=DIR, the same in both runs, and -seed\n")
	}
}

// Whole reports whether all parts were asked for, so that the counts can be judged.
func (s *Suite) Whole() bool {
	return flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == "" && *shardFlag == "" && *killsFlag == 0
}
