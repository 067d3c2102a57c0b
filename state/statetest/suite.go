package statetest

import (
	"testing"

	"pgregory.net/rapid"
)

// Run runs the suite.
func Run(t *testing.T, f Features) {
	t.Run("model", func(t *testing.T) { runModel(t, f) })
}

func runModel(t *testing.T, f Features) {
	rapid.Check(t, func(r *rapid.T) {
		m := newModel(t, f, func(label string, n int) int { return rapid.IntRange(0, n-1).Draw(r, label) })
		if err := m.run(); err != nil {
			r.Fatalf("%s: %v", f.Name, err)
		}
	})
}
