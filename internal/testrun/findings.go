package main

import (
	"fmt"
	"regexp"
	"strings"
)

// finding is a test that was skipped or failed, or the parts of one that were for the
// same reason.
type finding struct {
	outcome   string // skipped, failed
	pkg, test string
	parts     []string // names of subtests; none when it is the whole test
	reason    string
}

func (f finding) String() string {
	if len(f.parts) == 0 {
		return fmt.Sprintf("%s %s %s: %s", f.outcome, f.pkg, f.test, f.reason)
	}
	return fmt.Sprintf("%s in %s %s (%s): %s", f.outcome, f.pkg, f.test, strings.Join(f.parts, ", "), f.reason)
}

// findings follows the events of "go test -json": no test is left out, or fails, namelessly.
// The end of a long output must say what happened, for often only that is kept.
type findings struct {
	said map[string]string // by package and test: what it logged last
	told map[string]string // and what it logged first
	// demands are what packages printed as a whole that speaks of a failure: a panic, or
	// what a run of many tests should have shown.
	demands map[string][]string
	all     []finding
}

// demand is a line of a package that says why it failed though none of its tests did;
// "FAIL" and a tab is the verdict, and says nothing.
var demand = regexp.MustCompile(`^\s*(FAIL {2,}|panic: |nobody died |.* was never passed)`)

// logged is a line of t.Log, t.Skip or t.Error; of several lines it is the first.
var logged = regexp.MustCompile(`^\s*\S+\.go:\d+: (.*)`)

func (s *findings) take(e event) {
	if e.Test == "" {
		s.whole(e)
		return
	}
	key := e.Package + " " + e.Test
	switch e.Action {
	case "output":
		if m := logged.FindStringSubmatch(strings.TrimRight(e.Output, "\n")); m != nil {
			if s.said == nil {
				s.said, s.told = map[string]string{}, map[string]string{}
			}
			if s.said[key] == "" {
				s.told[key] = m[1]
			}
			s.said[key] = m[1]
		}
	case "skip":
		s.add("skipped", e, s.said[key])
		delete(s.said, key)
	case "fail":
		if !s.failed(e) { // the part that failed says more than the whole
			reason := s.told[key]
			if last := s.said[key]; last != reason {
				reason += " ... " + last
			}
			s.add("failed", e, reason)
		}
		delete(s.said, key)
	case "pass":
		delete(s.said, key)
	}
}

// whole follows what a package does and prints outside its tests.
func (s *findings) whole(e event) {
	switch {
	case e.Action == "output" && demand.MatchString(e.Output):
		if s.demands == nil {
			s.demands = map[string][]string{}
		}
		s.demands[e.Package] = append(s.demands[e.Package], strings.Join(strings.Fields(e.Output), " "))
	case e.Action == "fail": // a package without tests is "skip" as well
		said := s.demands[e.Package]
		if len(said) == 0 && s.failed(e) {
			return
		}
		if len(said) == 0 {
			said = []string{"a build, a panic, or the time limit"}
		}
		s.all = append(s.all, finding{outcome: "failed", pkg: e.Package, test: "as a whole", reason: shortened(strings.Join(said, "; "))})
	}
}

func shortened(reason string) string {
	if len(reason) > 400 {
		return reason[:400] + "..."
	}
	return reason
}

// failed reports whether a part of the test, or of the package, is known to have failed.
func (s *findings) failed(e event) bool {
	for _, f := range s.all {
		if f.outcome != "failed" || f.pkg != e.Package {
			continue
		}
		if e.Test == "" {
			return true
		}
		for _, part := range f.parts {
			if strings.HasPrefix(f.test+"/"+part, e.Test+"/") {
				return true
			}
		}
	}
	return false
}

func (s *findings) add(outcome string, e event, reason string) {
	if reason == "" {
		reason = "no reason given"
	}
	reason = shortened(reason)
	test, part, isPart := strings.Cut(e.Test, "/")
	if !isPart {
		s.all = append(s.all, finding{outcome: outcome, pkg: e.Package, test: test, reason: reason})
		return
	}
	for i, have := range s.all {
		if have.outcome == outcome && have.pkg == e.Package && have.test == test && have.reason == reason && len(have.parts) > 0 {
			s.all[i].parts = append(have.parts, part)
			return
		}
	}
	s.all = append(s.all, finding{outcome: outcome, pkg: e.Package, test: test, parts: []string{part}, reason: reason})
}
