//go:build !broken

// Package broken holds the switches of the negative controls: builds of the
// product with one rule of the protocol broken on purpose, which the test suite
// must catch. Without the build tag "broken" every switch is the constant false
// and the compiler removes what depends on it.
package broken

// Is reports whether the rule is broken in this process: never, in this build.
func Is(Rule) bool { return false }
