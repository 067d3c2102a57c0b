package sinktest

import (
	"context"
	"errors"

	"etl/stream"
)

var mishapRules = append(deaths(), []rule{
	{"a process dies anywhere in its restart", nil, diesRestarting},
	{"a reply to a commit is lost", committing, func(r *rig) { loses(r, loseReply) }},
	{"a request of a commit is lost", committing, func(r *rig) { loses(r, loseRequest) }},
	{"the outside dies", needsKill, outsideDies},
}...)

// stage is a step of a history at whose events a process dies.
type stage struct {
	name string
	do   func(p *process, h *past)
}

// past is what the stages before have left.
type past struct{ first, second *round }

// stages are the life of two checkpoints, the first one aborted.
var stages = []stage{
	{"write", func(p *process, _ *past) { p.write(12) }},
	{"prepare", func(p *process, h *past) { h.first = p.prepare() }},
	{"finish", func(p *process, h *past) { p.finish(h.first) }},
	{"abort", func(p *process, h *past) { p.abort(h.first) }},
	{"write on", func(p *process, _ *past) { p.write(9) }},
	{"prepare again", func(p *process, h *past) { h.second = p.prepare() }},
	{"write behind the barrier", func(p *process, _ *past) { p.write(9) }},
	{"finish again", func(p *process, h *past) { p.finish(h.second) }},
	{"publish", func(p *process, h *past) { p.publish(h.second) }},
	{"commit a lane", func(p *process, _ *past) { p.commit(0) }},
	{"commit the rest", func(p *process, _ *past) { p.settle() }},
	{"the next checkpoint", func(p *process, _ *past) { p.checkpoint() }},
	{"end", func(p *process, _ *past) { p.finishJob() }},
}

// deaths are the rules that a process may die at every event of every stage: the next
// attempt is exact.
func deaths() (out []rule) {
	for i := range stages {
		out = append(out, rule{"a process dies anywhere in: " + stages[i].name, nil, func(r *rig) { diesIn(r, i) }})
	}
	return out
}

func diesIn(r *rig, i int) {
	r.eachPlace(kill, func(after int) (passed int, happened bool) {
		j := r.another()
		p := j.start(2)
		p.write(7)
		p.checkpoint()
		h := &past{}
		for _, before := range stages[:i] {
			before.do(p, h)
		}
		p.n.arm(kill, after)
		r.try(func() { stages[i].do(p, h) })
		passed, happened = p.n.disarm()
		p.kill()
		j.recovers()
		return passed, happened
	})
}

// recovers starts the job once more, lets it go on to the end, and looks at everything.
func (j *job) recovers() {
	p := j.start(2)
	j.want(p.at)
	p.write(10)
	p.finishJob()
	j.want(p.at)
}

// diesRestarting: an attempt has left a published checkpoint, a prepared one and open
// rows; the next one dies at any event of its recovery, and the one after is exact.
func diesRestarting(r *rig) {
	r.eachPlace(kill, func(after int) (passed int, happened bool) {
		j := r.another()
		p := j.start(3)
		p.publishes(14)
		p.commit(0)
		if !r.f.OneInFlight {
			p.write(14)
			p.ready()
		}
		p.write(7)
		p.kill()
		p = j.process(2)
		p.n.arm(kill, after)
		r.try(func() { p.must(p.tryStart(stream.NoCheckpoint)) })
		passed, happened = p.n.disarm()
		p.kill()
		j.recovers()
		return passed, happened
	})
}

// loses: the answer to a commit, or the request, gets lost on the way. The ledger asks
// again, or the attempt ends and the next one does.
func loses(r *rig, m mishap) {
	r.eachPlace(m, func(after int) (passed int, happened bool) {
		j := r.another()
		p := j.start(2)
		p.publishes(14)
		p.n.arm(m, after)
		err := p.trySettle()
		passed, happened = p.n.disarm()
		if err != nil {
			r.passing(err)
			p.kill()
			j.recovers()
			return passed, happened
		}
		j.want(14)
		p.finishJob()
		j.want(14)
		return passed, happened
	})
}

// passing fails unless err means that another attempt may do better: for nothing else
// the engine makes one.
func (r *rig) passing(err error) {
	if c := stream.ClassOf(err); c != stream.Restart && c != stream.Retry || errors.Is(err, errHang) {
		r.failf("a message was lost, and the job ends for good: %w (%s)", err, c)
	}
}

// eachPlace calls f with every number of events after which the mishap is to happen,
// until there are no more events; with many of them it takes samples.
func (r *rig) eachPlace(m mishap, f func(after int) (passed int, happened bool)) {
	const never = 1 << 30
	events, _ := f(never)
	step := max(1, (events+r.s.Places-1)/r.s.Places)
	places := 0
	for after := 0; after < events; after += step {
		r.note("\nmishap %d after %d of %d events", m, after, events)
		if _, happened := f(after); happened {
			places++
		}
	}
	r.t.Logf("%d places among %d events", places, events)
}

func needsKill(r *rig) string {
	if r.h.Kill == nil || r.h.Restart == nil {
		return "the harness cannot kill its outside"
	}
	return committing(r)
}

// outsideDies: the outside dies and comes back with something prepared, with something
// published, and with something committed. The process goes on, or its successor does.
func outsideDies(r *rig) {
	j := r.job()
	p := j.start(2)
	for _, when := range []string{"prepared", "published", "committed"} {
		p.write(10)
		rd := p.ready()
		if when == "prepared" {
			r.crashOutside()
		}
		p.publish(rd)
		if when == "published" {
			r.crashOutside()
		}
		p.settle()
		if when == "committed" {
			r.crashOutside()
		}
		j.want(p.at)
		p.kill()
		p = j.start(2)
		j.want(p.at)
	}
	p.finishJob()
	j.want(30)
}

func (r *rig) crashOutside() {
	r.must(r.bounded(context.Background(), "kill the outside", r.h.Kill))
	r.must(r.bounded(context.Background(), "restart the outside", r.h.Restart))
}
