package sinktest

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSinks: the suite passes sinks of every kind that break no rule.
func TestSinks(t *testing.T) {
	for _, k := range []kind{appending, reducing, logging, upserting} {
		t.Run(string(k), func(t *testing.T) { Run(t, suiteOf(k, noFault)) })
	}
}
