package torture

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Tally counts what happened in a run. It can be added up and written as JSON.
type Tally struct {
	// Counts by name; those of kills at points are "kill at NAME".
	Counts map[string]int64 `json:"counts"`
	// Passed are the points that were passed by any worker.
	Passed map[string]bool `json:"passed"`
	// Starts are the times from start to running.
	Starts []time.Duration `json:"starts"`
}

// NewTally returns an empty one.
func NewTally() *Tally { return &Tally{Counts: map[string]int64{}, Passed: map[string]bool{}} }

// The names of counts that a run must show.
const (
	kills        = "kills of workers"
	fakeKills    = "kills of workers on kfake"
	realKills    = "kills of workers on Kafka"
	killsRandom  = "kills at random times"
	killsAgain   = "kills before the job ran again"
	killsOther   = "kills when something had happened"
	killsMissed  = "points not reached in time"
	notKilled    = "kills left out for want of time"
	brokerKills  = "kills of brokers"
	brokerAimed  = "kills of brokers aimed at EndTxn"
	brokerOrders = "restarts of brokers in order"
	published    = "checkpoints confirmed"
	abortedOnes  = "aborted checkpoints"
	alignments   = "alignments"
	recommitted  = "re-committed transactions"
	byMarker     = "marker-resolved transactions"
	healedOnes   = "healed transactions"
	cleanedOnes  = "aborted transactions cleaned"
	materialized = "materializations"
	replayed     = "segments replayed"
	basesReused  = "bases reused"
	basesDropped = "bases discarded"
	spilled      = "entries spilled"
	restarts     = "restarts in the process"
	recordsIn    = "records in"
	rowsOut      = "rows out"
	restored     = "checkpoints restored into a scratch job"
	episodes     = "episodes"
	twoOwners    = "two owners"
	refusals     = "refusals"
	controlsSeen = "controls caught"
	controlsHung = "controls caught by dying brokers"
	oldVersion   = "runs on transaction version 1"
	twoSlots     = "runs with two slots and no cooling"
	bigStates    = "runs with state larger than memory"
)

// The names of counts of jobs that write tables; the strategy follows.
const (
	tableKills      = "kills of workers into tables, "
	tableKillsAgain = "kills before the job ran again, into tables, "

	tableServerKills = "kills of PostgreSQL, "
	tableServerAimed = "kills of PostgreSQL at its work"
	answersLost      = "answers of PostgreSQL lost, "
	requestsLost     = "requests to PostgreSQL lost, "

	intoTables = ", into tables"
)

const killAt = "kill at "

// Add adds n to a count.
func (t *Tally) Add(name string, n int64) {
	if n != 0 {
		t.Counts[name] += n
	}
}

// Merge adds another tally.
func (t *Tally) Merge(o *Tally) {
	for name, n := range o.Counts {
		t.Counts[name] += n
	}
	maps.Copy(t.Passed, o.Passed)
	t.Starts = append(t.Starts, o.Starts...)
}

// quantile returns the time below which a share of the starts lies.
func (t *Tally) quantile(q float64) time.Duration {
	if len(t.Starts) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(t.Starts))
	return s[min(int(q*float64(len(s))), len(s)-1)].Round(time.Millisecond)
}

// String is the report of a run.
func (t *Tally) String() string {
	var s strings.Builder
	var points []string
	for _, name := range slices.Sorted(maps.Keys(t.Counts)) {
		if p, ok := strings.CutPrefix(name, killAt); ok {
			points = append(points, fmt.Sprintf("%s %d", p, t.Counts[name]))
			continue
		}
		fmt.Fprintf(&s, "  %-44s %d\n", name, t.Counts[name])
	}
	fmt.Fprintf(&s, "  %-44s p50 %v, p99 %v, max %v\n", "start to running", t.quantile(0.5), t.quantile(0.99), t.quantile(1))
	fmt.Fprintf(&s, "  %-44s %d of %d: %s\n", "points killed at", len(points), len(Points)+tablePointCount(), strings.Join(points, ", "))
	return s.String()
}

// hear takes what a worker said into the tally; into follows the names of what is counted
// apart for jobs that write tables.
func (t *Tally) hear(lines []Line, into string) {
	for _, l := range lines {
		t.Add("log lines", 1)
		switch l.Msg() {
		case "checkpoint":
			t.Add(published, 1+l.int("omitted"))
			if l.int("aligned") > 0 {
				t.Add(alignments, 1)
			}
		case "checkpoint failed":
			t.Add(abortedOnes, 1+l.int("omitted"))
		case "transaction of an earlier attempt committed", "transaction committed, after markers that the broker had left out were written":
			t.commit(l, into)
		case "wrote transaction markers that the coordinator had skipped (KAFKA-20734)":
			if c, _ := l.Fields["commit"].(bool); c {
				t.Add(healedOnes, 1)
			} else {
				t.Add(cleanedOnes, 1)
			}
		case "restarting from the last checkpoint":
			t.Add(restarts, 1)
		case "keyed state loaded":
			t.Add(replayed, l.int("segments"))
			t.Add(basesReused, l.int("bases_reused"))
			t.Add(basesDropped, l.int("bases_discarded"))
		case "base of keyed state materialized":
			t.Add(materialized, 1+l.int("omitted"))
		}
	}
}

func (t *Tally) commit(l Line, into string) {
	marker, _ := l.Fields["by_marker"].(bool)
	switch {
	case marker:
		t.Add(byMarker+into, 1+l.int("omitted"))
	case strings.HasPrefix(l.Msg(), "transaction of"):
		t.Add(recommitted+into, 1+l.int("omitted"))
	default:
		t.Add(healedOnes, 1)
	}
}

// int returns a number of a line, 0 if it has none.
func (l Line) int(name string) int64 {
	f, _ := l.Fields[name].(float64)
	return int64(f)
}
