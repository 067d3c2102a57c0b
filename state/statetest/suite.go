package statetest

import (
	"testing"

	"pgregory.net/rapid"

	"etl/state"
)

// Run runs the suite.
func Run(t *testing.T, f Features) {
	t.Run("model", func(t *testing.T) { runModel(t, f) })
	if !f.Unchecked {
		t.Run("refusals", func(t *testing.T) { runRefusals(t, f) })
	}
}

// mostRounds is how many rounds of histories there are until all has happened that is
// expected: it is drawn in a few of a hundred histories, and need not be in any.
const mostRounds = 4

func runModel(t *testing.T, f Features) {
	var total state.BackendStats
	inside := f.Inside
	if inside == nil {
		inside = func(f func()) { f() }
	}
	for round := 1; ; round++ {
		rapid.Check(t, func(r *rapid.T) {
			inside(func() {
				m := newModel(t, f, func(label string, n int) int { return Pick(r, label, n) })
				if err := m.run(); err != nil {
					r.Fatalf("%s: %v", f.Name, err)
				}
				add(&total, m.total)
			})
		})
		t.Logf("%s: %+v", f.Name, total)
		if f.Expect == nil || t.Failed() {
			return
		}
		err := f.Expect(total)
		if err == nil {
			return
		}
		if round == mostRounds {
			t.Fatal(err)
		}
	}
}

// Pick chooses one of n evenly, where rapid's ranges prefer what is small: a model
// whose first choice is a failure would see little else.
func Pick(r *rapid.T, label string, n int) int {
	return rapid.Custom(func(r *rapid.T) int {
		bits := 0
		for range pickBits {
			bits <<= 1
			if rapid.Bool().Draw(r, "bit") {
				bits++
			}
		}
		return bits * n >> pickBits
	}).Draw(r, label)
}

const pickBits = 10
