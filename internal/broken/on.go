//go:build broken

// Package broken holds the switches of the negative controls. This build obeys
// the environment variable ETL_BROKEN, a list of rules with commas between them;
// it must never be released.
package broken

import (
	"os"
	"strings"
)

var rules = func() map[Rule]bool {
	m := map[Rule]bool{}
	for name := range strings.SplitSeq(os.Getenv("ETL_BROKEN"), ",") {
		m[Rule(name)] = true
	}
	return m
}()

// Is reports whether the rule is broken in this process.
func Is(r Rule) bool { return rules[r] }
