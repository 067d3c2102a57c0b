//go:build broken

// Package broken holds the switches of the negative controls. This build obeys
// the environment variable ETL_BROKEN; it must never be released.
package broken

import "os"

var rule = Rule(os.Getenv("ETL_BROKEN"))

// Is reports whether the rule is broken in this process.
func Is(r Rule) bool { return rule == r }
