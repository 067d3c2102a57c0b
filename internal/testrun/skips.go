package main

import (
	"fmt"
	"regexp"
	"strings"
)

// skip is a test that was skipped, or the parts of one that were for the same reason.
type skip struct {
	pkg, test string
	parts     []string // names of subtests; none when the whole test was skipped
	reason    string
}

func (s skip) String() string {
	if len(s.parts) == 0 {
		return fmt.Sprintf("skipped %s %s: %s", s.pkg, s.test, s.reason)
	}
	return fmt.Sprintf("skipped in %s %s (%s): %s", s.pkg, s.test, strings.Join(s.parts, ", "), s.reason)
}

// skips follows the events of "go test -json": no test is left out namelessly.
type skips struct {
	said map[string]string // by package and test: what it logged last
	all  []skip
}

// logged is a line of t.Log, t.Skip or t.Error; of several lines it is the first.
var logged = regexp.MustCompile(`^\s*\S+\.go:\d+: (.*)`)

func (s *skips) take(e event) {
	if e.Test == "" {
		return // a package without tests is "skip" as well
	}
	key := e.Package + " " + e.Test
	switch e.Action {
	case "output":
		if m := logged.FindStringSubmatch(strings.TrimRight(e.Output, "\n")); m != nil {
			if s.said == nil {
				s.said = map[string]string{}
			}
			s.said[key] = m[1]
		}
	case "skip":
		s.add(e, s.said[key])
		delete(s.said, key)
	case "pass", "fail":
		delete(s.said, key)
	}
}

func (s *skips) add(e event, reason string) {
	if reason == "" {
		reason = "no reason given"
	}
	test, part, isPart := strings.Cut(e.Test, "/")
	if !isPart {
		s.all = append(s.all, skip{pkg: e.Package, test: test, reason: reason})
		return
	}
	for i, have := range s.all {
		if have.pkg == e.Package && have.test == test && have.reason == reason && len(have.parts) > 0 {
			s.all[i].parts = append(have.parts, part)
			return
		}
	}
	s.all = append(s.all, skip{pkg: e.Package, test: test, parts: []string{part}, reason: reason})
}
