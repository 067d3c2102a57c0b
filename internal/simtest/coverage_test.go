package simtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
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
