package simtest

import (
	"fmt"
	"testing"
	"time"

	"etl/stream"
)

// scenario is a story that seeds fill in: what happened once, or must be seen to
// happen every time.
type scenario struct {
	name   string
	change func(*plan)
	// lost: the job must declare a loss; otherwise it must not.
	lost bool
}

const (
	afterTimeout   = transactionTimeout + 2*time.Minute
	afterIDs       = idExpiration + 2*time.Minute
	afterRetention = offsetsRetention + 2*time.Minute
)

// calm leaves a plan that goes wrong nowhere but where its script says so.
func (p *plan) calm(script ...step) {
	p.weather, p.storage, p.gremlin, p.blackout, p.badDisk = weather{latency: 2 * time.Millisecond}, mishaps{}, 0, false, false
	p.decline, p.upload, p.power, p.owners, p.jumps, p.moves, p.rescale = 0, 0, 0, false, false, false, false
	p.policy.MaxConcurrent, p.policy.MinPause, p.policy.Timeout = 0, 5*time.Millisecond, 2*time.Second
	p.policy.Interval = 50 * time.Millisecond
	p.sinkView = p.policy
	p.bounded, p.records, p.batch, p.pace = true, 800, 10, 30*time.Millisecond
	p.script = script
}

// dieAt is a life that ends at the n-th pass of a fault point, and the time after it.
func dieAt(point string, n int64, down time.Duration) step {
	return step{end: ending{how: atPoint, point: point, n: n}, down: down}
}

var scenarios = []scenario{
	{name: "everything expired and all was confirmed", change: func(p *plan) {
		p.calm(step{end: ending{how: stopped, after: 400 * time.Millisecond}, down: afterRetention},
			step{end: ending{how: stopped, after: 400 * time.Millisecond}, down: afterIDs})
	}},
	// Nothing of the newest checkpoint was committed, and that can be known: the one
	// before is restored.
	{name: "transactions timed out before any was committed", change: func(p *plan) {
		p.par = 1
		p.calm(dieAt("kafka.endtxn.before", 2, afterTimeout))
	}},
	// The ids are gone, the markers are there.
	{name: "committed, not noted, ids expired", change: func(p *plan) {
		p.par = 1
		p.calm(dieAt("kafka.verified", 2, afterIDs))
	}},
	// Whether the newest checkpoint was committed nobody can tell any more: falling
	// back to the one before would write its rows again, if it was.
	{name: "committed, not noted, markers expired", lost: true, change: func(p *plan) {
		p.par = 1
		p.calm(dieAt("kafka.verified", 2, afterRetention))
	}},
	{name: "published, not committed, markers could have expired", lost: true, change: func(p *plan) {
		p.par = 1
		p.calm(dieAt("kafka.endtxn.before", 2, afterRetention))
	}},
	// All stores of a self-contained checkpoint must get the same copy of the base.
	{name: "self-contained and concurrent checkpoints", change: func(p *plan) {
		p.shape, p.pebble, p.par, p.owners, p.jumps = counts, true, 3, false, false
		p.policy.MaxConcurrent, p.policy.MinPause = 3, 0
		p.chains.Full = true
	}},
	// A process that was stopped before or in its recovery sees markers ahead of what
	// it restores: it was taken over, and nothing is lost.
	{name: "stopped during recovery", change: func(p *plan) {
		p.owners, p.bounded, p.jumps = true, false, false
		p.storage.fail, p.storage.unknown = 0.01, 0.01
	}},
	// Lanes see it as commits whose outcome is not known, and ask again.
	{name: "no transaction can be ended for a while", change: func(p *plan) {
		p.calm(step{end: ending{how: stopped, after: 30 * time.Second}})
		p.blackout = true
	}},
	refusal(olderCheckpoint), refusal(wrongGraph), refusal(missingObject), refusal(otherStorage),
	// A committer that connects and then fails has to be closed again.
	{name: "connections end during the start", change: func(p *plan) {
		p.owners, p.jumps = false, false
		p.weather.reset = 0.02
	}},
}

// refusal is a start that must be refused, between two that are in order.
func refusal(w wrong) scenario {
	return scenario{name: "refused: " + string(w), change: func(p *plan) {
		p.shape, p.par = counts, 2
		p.calm(dieAt("kafka.verified", 6, 0), step{end: ending{how: refused, wrong: w}})
	}}
}

// scenarioSeeds is how often each is played.
const scenarioSeeds = 8

func TestScenarios(t *testing.T) {
	if !virtualMutexes {
		t.Skip("needs -tags synctests; TestSimulation builds that")
	}
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			for n := range uint64(scenarioSeeds) {
				t.Run(fmt.Sprint("seed=", n), func(t *testing.T) { playSeed(t, 1_000_000+n, sc) })
			}
		})
	}
	reportShard()
}

func playSeed(t *testing.T, n uint64, sc scenario) {
	s := runSeed(t, n, sc.change)
	told := s.lossTold != nil
	if told != sc.lost && !t.Failed() {
		t.Errorf("seed %d: declared a loss: %v (%v, %s), want %v\n%v", n, told, s.lossTold, stream.CodeOf(s.lossTold), sc.lost, s.story)
	}
}
