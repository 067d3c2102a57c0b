package sinktest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"etl/checkpoint"
	"etl/sink"
)

var probeRules = []rule{
	{"a probe tells open from committed", all(committing, telling), tells},
	{"a probe changes nothing", committing, onlyLooks},
	{"inspect lists what is in doubt, and changes nothing", committing, inspects},
	{"what inspect names can be ended by name", repairing, repairs},
}

// tells: every process gets the same answers, and with them the marker of the lane and
// the deadline.
func tells(r *rig) {
	j := r.job()
	p := j.start(2)
	rd := p.publishes(20)
	cs := p.listed(rd.id)
	for sub := range p.par {
		var done, open []checkpoint.Committable
		for _, c := range cs {
			if c.Subtask < sub {
				done = append(done, c)
			} else {
				open = append(open, c)
			}
		}
		p.wantStatus(open, sink.Open)
		p.wantStatus(done, sink.Committed)
		p.commit(sub)
	}
	for _, q := range []*process{p, j.outsider(2)} {
		for i, got := range q.peek(cs) {
			if got.Status != sink.Committed || r.f.Marker && got.Marker < cs[i].Checkpoint {
				r.failf("probe says %s, marker %s, of %s, which is committed (%s)", got.Status, got.Marker, sink.Name(&cs[i]), got.Detail)
			}
			if r.f.Timeout > 0 && got.Deadline.IsZero() {
				r.failf("probe tells no deadline of %s", sink.Name(&cs[i]))
			}
		}
	}
	j.want(20)
}

// onlyLooks: whatever a process looks at, and however often, stays as it was.
func onlyLooks(r *rig) {
	j := r.job()
	p := j.start(2)
	p.write(10)
	p.checkpoint()
	rd := p.publishes(20)
	before := p.doubt()
	p.looksAround(rd)
	other := j.outsider(1)
	other.looksAround(rd)
	if after := p.doubt(); !slices.Equal(before, after) {
		r.failf("in doubt were %v, after looks they are %v", before, after)
	}
	j.seesNothingNew(10)
	p.settle()
	j.want(30)
}

// looksAround calls everything that only reads.
func (p *process) looksAround(rd *round) {
	for range 3 {
		p.peek(p.listed(rd.id))
		for sub := range p.par + 1 {
			if p.j.r.f.Marker {
				p.marker(sub)
			}
		}
		p.inspected()
	}
}

// inspects: every process sees what is open or prepared, whose it is, and nothing that
// has ended.
func inspects(r *rig) {
	j := r.job()
	p := j.start(2)
	p.wantInspected("before the first row")
	p.write(20)
	rd := p.ready()
	p.wantInspected("prepared")
	p.publish(rd)
	p.commit(0)
	p.wantInspected("one lane committed")
	other := j.outsider(2)
	other.wantInspected("by another process")
	p.settle()
	if left := p.inspected(); len(left) > 0 {
		r.failf("everything is committed, inspect lists %+v", left)
	}
	p.write(10)
	p.ready()
	for _, d := range p.inspected() {
		if d.Attempt != p.attempt.Number() || d.Subtask < 0 || d.Subtask >= p.par {
			r.failf("inspect says %+v; it is of attempt %d, which has %d subtasks", d, p.attempt.Number(), p.par)
		}
	}
	p.kill()
	p = j.start(2)
	if left := p.inspected(); len(left) > 0 {
		r.failf("everything is fenced, inspect lists %+v", left)
	}
	j.want(20)
}

func repairing(r *rig) string {
	if why := committing(r); why != "" {
		return why
	}
	if r.f.Deferred {
		return "what is prepared lies in the checkpoint, not outside"
	}
	c := r.h.Connect(Process{World: r.h.World, Parallelism: 1, Policy: r.s.Policy, n: newNode(func() {})}).NewCommitter()
	if _, ok := c.(sink.Repairer); !ok {
		return "the sink ends nothing by name"
	}
	return ""
}

// repairs: each committable has the name that Inspect gives it; aborted by that name it
// is gone, and no other one is.
func repairs(r *rig) {
	j := r.job()
	p := j.start(2)
	p.write(20)
	rd := p.ready()
	cs, _ := p.lanes.ledger.List(rd.id)
	names := map[string]bool{}
	for _, d := range p.inspected() {
		names[d.ID] = true
	}
	end := p.committer.(sink.Repairer)
	for i := range cs {
		id, err := end.IDOf(&cs[i])
		if r.must(err); !names[id] {
			r.failf("%s is called %q, and inspect lists %v", sink.Name(&cs[i]), id, names)
		}
		if i > 0 {
			continue
		}
		for range 2 { // the second time it has been done
			p.do("abort by name", func(ctx context.Context) error { return end.End(ctx, id, false) })
		}
		names[id] = false
	}
	for i, s := range p.peek(cs) {
		if open := s.Status == sink.Open; open != (i > 0) {
			r.failf("the first was aborted, and number %d is %s: %s", i, s.Status, s.Detail)
		}
	}
	for _, d := range p.inspected() {
		if !names[d.ID] {
			r.failf("%q was aborted, and inspect still lists it", d.ID)
		}
	}
}

// wantInspected compares Inspect with what the outside tells. What a writer has sent on
// its way may get there between the two looks, so what Inspect lacks is looked for again;
// and an outside that is busy may leave something out, so it is asked again for what it
// lacks, but Inspect is not: it must not have ended it.
func (p *process) wantInspected(when string) {
	names, want := p.names(), p.doubt()
	again := false
	p.j.r.eventually(func() string {
		if again {
			if !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(want, n) }) {
				names = p.names()
			}
			want = p.doubt()
		}
		again = true
		if slices.Equal(names, want) {
			return ""
		}
		return fmt.Sprintf("%s: inspect lists %q, in doubt outside are %q", when, names, want)
	})
	if p.j.r.h.InDoubt == nil {
		return
	}
	p.do("inspect again", func(ctx context.Context) error {
		again, err := p.committer.Inspect(ctx)
		if err == nil && len(again) < len(names) {
			p.j.r.note("inspect listed %d, then %d", len(names), len(again))
			return errChanged
		}
		return err
	})
}

// names are what Inspect lists, without what tells uses of a name apart.
func (p *process) names() (out []string) {
	for _, d := range p.inspected() {
		name, _, _ := strings.Cut(d.ID, "@")
		out = append(out, name)
	}
	return out
}
