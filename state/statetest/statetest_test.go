package statetest

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestOracle: the suite passes a backend that breaks no rule.
func TestOracle(t *testing.T) { Run(t, OracleFeatures(None)) }

// TestFaults: the suite catches every broken rule. These are its negative
// controls.
func TestFaults(t *testing.T) {
	for _, f := range Faults {
		t.Run(string(f), func(t *testing.T) {
			for seed := range uint64(400) {
				if err := seeded(t, OracleFeatures(f), seed); err != nil {
					t.Logf("caught with seed %d: %v", seed, err)
					return
				}
			}
			t.Error("not caught in 400 runs")
		})
	}
}

// seeded runs the model once with choices from a seed.
func seeded(t testing.TB, f Features, seed uint64) (err error) {
	r := rand.New(rand.NewPCG(seed, 1))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return newModel(t, f, func(_ string, n int) int { return r.IntN(n) }).run()
}
