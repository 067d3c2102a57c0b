package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/stream"
)

const partitions = 3

// text makes lines of words: a few frequent ones, many rare ones. The same seed
// gives the same lines.
type text struct {
	rand  *rand.Rand
	zipf  *rand.Zipf
	words []string
}

var syllables = strings.Fields("ba de fi go hu ka le mi no pu ra se ti vo zu")

func newText(seed uint64) *text {
	r := rand.New(rand.NewPCG(seed, 1))
	t := &text{rand: r, zipf: rand.NewZipf(r, 1.2, 4, 4999)}
	for i := range 5000 {
		w := ""
		for n := i + 15; n > 0; n /= len(syllables) {
			w += syllables[n%len(syllables)]
		}
		t.words = append(t.words, w)
	}
	return t
}

// line returns the next line and its number of words.
func (t *text) line() (string, int) {
	n := 1 + t.rand.IntN(7)
	words := make([]string, n)
	for i := range words {
		words[i] = t.words[t.zipf.Uint64()]
	}
	return strings.Join(words, " "), n
}

// share returns how many of n lines go to a partition: they go round.
func share(n int64, partition int) int64 {
	return (n + int64(partitions-1-partition)) / partitions
}

// generator writes the lines.
type generator struct {
	cl    *kgo.Client
	clock stream.Clock
	text  *text
	total int64
	// kills are how many deaths the input is to last for, killed how many there were.
	kills  int64
	killed atomic.Int64
	lines  atomic.Int64
	words  atomic.Int64
}

// The pace of the input: what belongs to one kill comes in paceShare, and after that
// drop by drop until it happened.
const (
	paceStep  = 20 * time.Millisecond
	paceShare = 1500 * time.Millisecond
	paceDrops = 40 // seconds that another share would take then
)

// run writes until all lines are written.
func (g *generator) run(ctx context.Context) error {
	began, seen := g.clock.Now(), int64(0)
	for g.lines.Load() < g.total {
		if k := g.killed.Load(); k != seen {
			began, seen = g.clock.Now(), k
		}
		if err := g.write(ctx, g.due(seen, g.clock.Now().Sub(began))-g.lines.Load()); err != nil {
			return err
		}
		if err := g.clock.Sleep(ctx, paceStep); err != nil {
			return err
		}
	}
	return nil
}

// due is how many lines must be written some time after the last of so many kills.
func (g *generator) due(killed int64, since time.Duration) int64 {
	if killed >= g.kills {
		killed = g.kills // the last share has no kill to wait for
	}
	part := float64(g.total) / float64(g.kills+1)
	done := float64(since) / float64(paceShare)
	if over := done - 1; over > 0 && killed < g.kills {
		done = 1 + over*paceShare.Seconds()/paceDrops
	}
	if killed < g.kills {
		done = min(done, float64(g.kills+1-killed)-0.1) // something stays for the end
	}
	return min(g.total, int64(part*(float64(killed)+done)))
}

// write writes n lines and waits until the broker has them.
func (g *generator) write(ctx context.Context, n int64) error {
	if n <= 0 {
		return nil
	}
	recs := make([]*kgo.Record, n)
	now, words := g.clock.Now(), 0
	for i := range recs {
		line, w := g.text.line()
		words += w
		recs[i] = &kgo.Record{Topic: linesTopic, Partition: int32((g.lines.Load() + int64(i)) % partitions), Value: []byte(line), Timestamp: now}
	}
	if err := g.cl.ProduceSync(ctx, recs...).FirstErr(); err != nil {
		return fmt.Errorf("write lines: %w", err)
	}
	g.lines.Add(n)
	g.words.Add(int64(words))
	return nil
}
