// Package invariant asserts what must hold, in release builds too: stopping is
// always better than committing wrong data. Assertions name the invariant of
// package checkpoint that they guard (I1..I19).
package invariant

import "fmt"

// Check panics when ok is false. The message should name the invariant.
func Check(ok bool, format string, args ...any) {
	if !ok {
		panic("invariant violated: " + fmt.Sprintf(format, args...))
	}
}
