package sinktest

import (
	"cmp"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"etl/checkpoint"
	"etl/sink"
	"etl/stream"
)

// Suite describes a sink to the suite.
type Suite struct {
	// New returns an outside with nothing of the job in it. Each test has one of its
	// own; what New starts ends with t.
	New func(t testing.TB) *Harness
	// Policy is that of the jobs under test. Its zero fields have the policy's
	// defaults; MaxConcurrent is 1.
	Policy checkpoint.Policy
	// Virtual runs each test in virtual time, inside testing/synctest: everything
	// that New makes, the network included, must live in the test's bubble.
	Virtual bool
	// Patience bounds each call into the sink, and each wait for what readers see;
	// default a minute, in virtual time 10 min.
	Patience time.Duration
	// Places bounds at how many places of each step a process dies, or a message gets
	// lost; they are spread evenly. Default 60.
	Places int
	// Only is the name of the one rule to test; "" tests all.
	Only string
	// Runs and Steps are the number of histories of the model and their length;
	// default 100 and 60.
	Runs, Steps int
}

// Harness is one outside and the sink under test in front of it.
type Harness struct {
	// World is what processes live in; its zero fields are the system's.
	World stream.World
	// Job is a name that nothing else in the outside has; default "job".
	Job string
	// Connect plugs the sink into a process. A sink must take everything of the
	// outside from p.World, or from p.Do.
	Connect func(p Process) sink.Connector
	// Read returns the rows that readers see at the moment, those of a partition in
	// the order in which readers get them.
	Read func(ctx context.Context) ([]Row, error)

	// Record makes the record of a row; nil makes the row's key the key and N in
	// decimal digits the value. Bytes that it adds come from b.
	Record func(b *stream.Batch, r Row) stream.Record
	// InDoubt returns the names of all that is open or prepared outside under the
	// harness's job name, by any sink and attempt, as the outside tells it: the same
	// names that Committer.Inspect uses. nil when there is no other way to know.
	InDoubt func(ctx context.Context) ([]string, error)
	// BadAtWrite and BadInFinish spoil a record so that Write, or Finish, finds that
	// it cannot be written. nil when there is no such record.
	BadAtWrite, BadInFinish func(b *stream.Batch, r *stream.Record)
	// Advance lets time pass, for the processes and for the outside.
	Advance func(d time.Duration)
	// Kill ends the outside without warning, Restart brings it back with what was
	// durable.
	Kill, Restart func(ctx context.Context) error
}

// Row is one row of the suite. No two rows have the same N; a key's rows have
// ascending ones.
type Row struct {
	Key string
	N   int
	// Partition is where a reader found it: order is promised within partitions.
	Partition int
}

// Run runs the suite.
func Run(t *testing.T, s Suite) {
	s = s.withDefaults()
	for _, c := range rules {
		if s.Only != "" && s.Only != c.name {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			s.inside(t, func(t testing.TB) {
				skipped, err := s.perform(t, c)
				if skipped != "" {
					t.Skip(skipped)
				}
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
	if s.Only == "" {
		t.Run("any history", func(t *testing.T) { s.runModel(t) })
	}
}

func (s Suite) withDefaults() Suite {
	s.Places = cmp.Or(s.Places, 60)
	s.Runs = cmp.Or(s.Runs, 100)
	s.Steps = cmp.Or(s.Steps, 60)
	if s.Patience == 0 {
		s.Patience = time.Minute
		if s.Virtual {
			s.Patience = 10 * time.Minute
		}
	}
	s.Policy = s.Policy.WithDefaults()
	s.Policy.MaxConcurrent = 1
	return s
}

// inside runs f in virtual time, or as it is.
func (s *Suite) inside(t *testing.T, f func(testing.TB)) {
	if s.Virtual {
		synctest.Test(t, func(t *testing.T) { f(t) })
		return
	}
	f(t)
}

// rule is one test of the suite.
type rule struct {
	name string
	// needs returns why the rule does not apply, "" when it does; nil: always.
	needs func(r *rig) string
	run   func(r *rig)
}

// rules are the tests in the order they run: what is simple comes first.
var rules = concat(commitRules, barrierRules, probeRules, fenceRules, zombieRules, restoreRules, replayRules, rejectRules, mishapRules)

func concat(lists ...[]rule) (all []rule) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// perform runs one rule on an outside of its own.
func (s *Suite) perform(t testing.TB, c rule) (skipped string, err error) {
	r := newRig(t, s)
	defer r.close()
	if c.needs != nil {
		if skipped = c.needs(r); skipped != "" {
			return skipped, nil
		}
	}
	r.spawn(func() { c.run(r) })
	return "", r.failure()
}
