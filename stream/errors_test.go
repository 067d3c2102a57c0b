package stream

import "testing"

// Sinks ask for the class of what became of every record, which mostly is nothing.
func TestClassOfNothing(t *testing.T) {
	var c Class
	if n := testing.AllocsPerRun(100, func() { c = ClassOf(nil) }); n != 0 || c != Failed {
		t.Errorf("%.0f allocations, class %v", n, c)
	}
}
