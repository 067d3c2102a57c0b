package simtest

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"etl/checkpoint"
	"etl/state/keyed"
)

// shape is the pipeline of a seed.
type shape string

const (
	passThrough shape = "pass-through" // byte for byte, in order, per partition
	counts      shape = "counts"       // running counts per key, every change emitted
	fanOut      shape = "fan-out"      // filter and flat_map, in order, per partition
	fanCounts   shape = "fan-counts"   // filter, flat_map, then running counts
)

func (h shape) keyed() bool { return h == counts || h == fanCounts }

// refuses reports whether the sink refuses some rows: these, and records that cannot be
// evaluated, become dead letters of the records that were read.
func (p *plan) refuses() bool { return p.second && p.shape == fanOut }

// fans reports whether records are evaluated: filtered, and made many of.
func (h shape) fans() bool { return h == fanOut || h == fanCounts }

// plan is everything that a seed decides before the first start.
type plan struct {
	shape        shape
	second       bool // a second sink: for the same, or for dead letters
	atCheckpoint bool // counts are emitted at checkpoints, not at every change
	bounded      bool
	records      int
	keys         int
	hot          bool
	drift        bool   // keys come and go
	open         string // what becomes of a transaction left open in the input: "", commit, abort, forget
	brokers      int
	old          bool // brokers with transaction version 1
	par          int
	pebble       bool
	chains       keyed.Policy
	policy       checkpoint.Policy
	sinkView     checkpoint.Policy // the policy as the sink sees it: slots, kept producers
	batch        int               // records in a source batch
	pace         time.Duration     // the most that an operator takes for a batch
	weather      weather
	storage      mishaps
	gremlin      time.Duration // the most between two faults of the brokers; 0: none
	badDisk      bool          // a sync fails now and then
	blackout     bool          // for a while no transaction can be ended
	decline      int           // each n-th publication is declined after all was prepared
	upload       int           // each n-th upload fails
	lives        int           // how many starts are doomed
	moves        bool          // processes move between machines
	power        float64       // the chance that a death is a loss of power
	owners       bool          // successors take over while the old process goes on
	jumps        bool          // time jumps while the job is down
	rescale      bool
	script       []step // what happens instead of what would be drawn
}

// step is one life of a scripted seed, and how long the job is down after it.
type step struct {
	end  ending
	down time.Duration
}

// rand returns a source of randomness of its own for a purpose: what one part
// draws does not move what another one gets.
func (s *sim) rand(purpose string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(purpose))
	return rand.New(rand.NewPCG(s.seed, h.Sum64()))
}

func newPlan(r *rand.Rand) plan {
	p := plan{
		shape:        pick(r, passThrough, counts, counts, counts, fanOut, fanCounts),
		second:       r.IntN(4) == 0,
		atCheckpoint: r.IntN(4) == 0,
		bounded:      r.IntN(3) > 0,
		records:      200 + r.IntN(800),
		keys:         3 + r.IntN(25),
		hot:          r.IntN(3) == 0,
		drift:        r.IntN(3) > 0,
		open:         pick(r, "", "commit", "abort", "forget"),
		brokers:      pick(r, 1, 1, 3),
		old:          r.IntN(8) == 0,
		par:          1 + r.IntN(3),
		batch:        1 + r.IntN(20),
		pace:         time.Duration(1+r.IntN(40)) * time.Millisecond,
		lives:        2 + r.IntN(7),
		power:        pick(r, 0, 0.5, 1),
		moves:        r.IntN(3) == 0,
		owners:       r.IntN(5) == 0,
		jumps:        r.IntN(6) == 0,
		rescale:      r.IntN(2) == 0,
		pebble:       r.IntN(3) > 0,
		chains:       shortChains(2+r.IntN(6), r.IntN(8) == 0),
	}
	if r.IntN(4) > 0 {
		p.decline = 2 + r.IntN(3)
	}
	if r.IntN(2) == 0 {
		p.upload = 2 + r.IntN(4)
	}
	if p.moves { // what only such jobs meet takes a base that grows old
		p.shape, p.pebble, p.chains.Full, p.rescale = pick(r, counts, counts, fanCounts), true, false, r.IntN(4) == 0
		p.lives += 4
		p.records += 800
		p.drift, p.keys, p.hot, p.power = true, 60+r.IntN(200), false, 0
		p.batch, p.pace = 2+r.IntN(5), time.Duration(10+r.IntN(20))*time.Millisecond
	}
	p.second = p.second || p.shape.fans() && p.records%2 == 0 // half of what can be bad has a place for dead letters
	p.drawPolicy(r)
	p.drawWeather(r)
	if p.moves {
		p.chains.SegmentCount, p.policy.Interval = 2, min(p.policy.Interval, 50*time.Millisecond)
	}
	return p
}

// aimAt changes a plan so that a fault point lies on its way.
func (p *plan) aimAt(point string) {
	p.owners = false
	switch {
	case slices.Contains(ofBase, point):
		p.pebble, p.moves = true, point == "K49-base-loaded"
		fallthrough
	case slices.Contains(ofState, point):
		p.shape = counts
	case strings.HasPrefix(point, "log.append.abandoned"):
		p.jumps = true
	case strings.HasPrefix(point, "kafka.recover"):
		p.sinkView.MaxConcurrent, p.sinkView.TolerableFailures = -1, 1
	}
}

func (p *plan) drawPolicy(r *rand.Rand) {
	ms := time.Millisecond
	p.policy = checkpoint.Policy{Interval: time.Duration(20+r.IntN(180)) * ms, MinPause: time.Duration(1+r.IntN(20)) * ms,
		Timeout: time.Duration(300+r.IntN(1500)) * ms, TolerableFailures: 2 + r.IntN(4), Retain: 2 + r.IntN(3), Drain: 30 * time.Second}
	if r.IntN(4) == 0 {
		p.policy.MaxConcurrent, p.policy.MinPause = 2+r.IntN(2), 0
	}
	p.sinkView = p.policy
	switch r.IntN(4) {
	case 0: // fresh producers, as with intervals of a second and more
		p.sinkView.Interval = 2 * time.Second
	case 1: // two slots, so that a verified one is used again at once: no cooling
		p.sinkView.MaxConcurrent, p.sinkView.TolerableFailures = -1, 1
	}
}

func (p *plan) drawWeather(r *rand.Rand) {
	ms := time.Millisecond
	if r.IntN(4) > 0 {
		p.weather.latency = time.Duration(1+r.IntN(8)) * ms
	}
	if r.IntN(2) == 0 {
		p.weather.slow = time.Duration(10+r.IntN(90)) * ms
	}
	if r.IntN(3) == 0 {
		p.weather.reset = 0.002 + r.Float64()*0.006
		p.weather.lose = map[kmsg.Key]float64{
			kmsg.EndTxn: 0.1, kmsg.InitProducerID: 0.05, kmsg.TxnOffsetCommit: 0.05, kmsg.Produce: 0.02}
	}
	if r.IntN(2) == 0 {
		p.gremlin = time.Duration(20+r.IntN(300)) * ms
	}
	p.blackout, p.badDisk = r.IntN(12) == 0, r.IntN(6) == 0
	if r.IntN(2) == 0 {
		p.storage.latency = time.Duration(1+r.IntN(pick(r, 15, 60))) * ms
	}
	if r.IntN(4) == 0 {
		p.storage.fail, p.storage.unknown = r.Float64()*0.02, r.Float64()*0.02
	}
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }
