package simtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
)

// coverage counts what happened, so that a run can show that it met what it was
// made to meet.
type coverage struct {
	mu sync.Mutex
	n  map[string]int64
}

// total is that of the process.
var total = newCoverage()

func newCoverage() *coverage { return &coverage{n: map[string]int64{}} }

func (c *coverage) add(what string) { c.addN(what, 1) }

func (c *coverage) addN(what string, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[what] += n
}

// merge adds another one's counts.
func (c *coverage) merge(n map[string]int64) {
	for what, k := range n {
		c.addN(what, k)
	}
}

// flush adds a seed's counts to those of the process.
func (c *coverage) flush() {
	c.mu.Lock()
	n := maps.Clone(c.n)
	c.mu.Unlock()
	total.merge(n)
	total.add("seeds")
}

// shardMark begins the line with which a process of a run hands in its counts.
const shardMark = "simtest-coverage "

func reportShard() {
	b, _ := json.Marshal(total.n)
	fmt.Println("\n" + shardMark + string(b))
}

// table is the counts in groups, for people.
func (c *coverage) table() string {
	var b strings.Builder
	group := ""
	for _, what := range slices.Sorted(maps.Keys(c.n)) {
		g, name, ok := strings.Cut(what, "/")
		if !ok {
			name = g
		}
		if g != group {
			group = g
			fmt.Fprintf(&b, "\n%s:", g)
		}
		fmt.Fprintf(&b, "  %s %d", name, c.n[what])
	}
	return b.String()
}

// needed are the counts of which none may be 0 in a whole run.
var needed = []string{
	"checkpoint/alignments", "checkpoint/aborted", "checkpoint/aborted: upload", "checkpoint/aborted: timeout", "checkpoint/published",
	"commit/re-committed", "commit/resolved by marker", "commit/transient", "commit/already_committed",
	"state/materializations", "state/segments replayed", "state/bases reused", "state/bases discarded", "state/spilled", "state/base reads",
	"job/rescaled", "job/restarting", "job/stopped", "job/cancelled", "job/lost power", "owners/fenced",
	"refused/--from an older checkpoint", "refused/a missing object", "refused/a renamed operator", "refused/an empty storage", "check/abandoned checkpoints",
	"job/declared a loss: restore.no_exact_checkpoint",
	"net/answer lost/EndTxn", "net/answer lost/InitProducerID", "net/answer lost/TxnOffsetCommit", "net/answer lost/Produce",
	"storage/failed/put", "storage/unknown/put", "brokers/coordinators moved", "brokers/leaders moved", "input/partition added",
	"down/4m0s", "down/22m0s", "down/1h2m0s", "death/time", "check/states restored", "check/dead letters",
}

// check fails for what a run was made to meet and did not.
func (c *coverage) check(t *testing.T) {
	for _, what := range needed {
		if c.n[what] == 0 {
			t.Errorf("never happened: %s", what)
		}
	}
	listed := map[string]bool{}
	for _, p := range points {
		listed[p] = true
		if c.n["point/"+p] == 0 {
			t.Errorf("fault point %s was never passed", p)
		}
		if c.n["death/"+p] == 0 {
			t.Errorf("nobody died at fault point %s", p)
		}
	}
	for what := range c.n {
		if p, ok := strings.CutPrefix(what, "point/"); ok && !listed[p] {
			t.Errorf("fault point %s is not listed in points_test.go", p)
		}
	}
}
