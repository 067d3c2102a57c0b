package sinktest

import (
	"slices"

	"etl/checkpoint"
	"etl/sink"
	"etl/stream"
)

var fenceRules = []rule{
	{"a fence ends what its owners left", committing, endsOrphans},
	{"a fence touches nobody else", committing, touchesOnlyOwners},
	{"a fence keeps what it is told to keep", committing, keeps},
	{"a fence can be repeated", committing, fencedTwice},
	{"a cancelled job ends its own", committing, cancelled},
	{"what is lost is said to be lost", committing, saysLost},
}

// endsOrphans: what a dead attempt had prepared or open, on more subtasks than there
// are now, never becomes visible and holds nobody back.
func endsOrphans(r *rig) {
	j := r.job()
	p := j.start(3)
	p.write(10)
	p.checkpoint()
	p.write(20)
	rd := p.ready() // prepared, never published
	cs, _ := p.lanes.ledger.List(rd.id)
	p.write(20) // open
	p.kill()
	p = j.start(1)
	if left := p.doubt(); len(left) > 0 {
		r.failf("after the fence there are still %q", left)
	}
	for _, s := range p.peek(cs) {
		if s.Status == sink.Committed {
			r.failf("an orphan is committed: %s", s.Detail)
		}
	}
	j.seesNothingNew(10)
	p.write(5)
	p.finishJob()
	j.want(15)
}

// namesakes are the names of what is not the job's sink.
func (r *rig) namesakes() []struct {
	name string
	uid  stream.UID
} {
	job := r.h.Job
	return []struct {
		name string
		uid  stream.UID
	}{
		{job, sinkUID + "2"}, {job, "o"}, // sinks of the same job whose names begin alike
		{job + ".x", sinkUID}, {job + "-", sinkUID}, {job + "_x", sinkUID}, {"x" + job, sinkUID}, // jobs, from a copy of its storage
		{job + ".out", "1out"}, // names that run into each other
		{job, sinkUID},         // another life
	}
}

// touchesOnlyOwners: other sinks of the job, other jobs with names like it, another life
// of the same name, and other attempts of the job have prepared work of their own
// through every fence, and commit it afterwards (I12).
func touchesOnlyOwners(r *rig) {
	j := r.job()
	j.twin = stream.Lineage{1, 2, 3, 4, 5, 6, 0x40, 7, 0x80}
	var others []*process
	for _, n := range r.namesakes() {
		o := r.otherJob(n.name, n.uid)
		if n.name != j.name || n.uid != j.uid {
			o.twin = j.twin
		}
		p := o.start(2)
		p.write(14)
		p.ready()
		others = append(others, p)
	}
	dead := j.start(2)
	dead.write(14)
	dead.ready()
	dead.kill()
	p := j.start(2) // fences attempt 1
	p.write(14)
	rd := p.ready()
	p.fences(nil, 1)
	for _, o := range others {
		o.publish(o.sealed[0])
		o.settle()
		o.j.want(14)
	}
	p.publish(rd)
	p.settle()
	j.want(14)
}

// keeps: a crash loop on one checkpoint meets what it lists as it was; the rest of the
// same attempt is ended.
func keeps(r *rig) {
	j := r.job()
	p := j.start(2)
	rd := p.publishes(20)
	cs := p.listed(rd.id)
	if !r.f.OneInFlight {
		p.write(20)
		p.ready()
	}
	p.kill()
	next := j.outsider(2)
	for range 2 {
		next.fences(cs, 1)
		next.wantStatus(cs, sink.Open)
		j.seesNothingNew(0)
	}
	if r.h.InDoubt != nil && len(next.doubt()) > len(cs) {
		r.failf("%d were to be kept, left are %q", len(cs), next.doubt())
	}
	next = j.start(2)
	j.want(20)
	next.write(5)
	next.finishJob()
	j.want(25)
}

// fencedTwice: processes that start over and over fence the same attempts at the same
// time as often as they like.
func fencedTwice(r *rig) {
	j := r.job()
	p := j.start(2)
	p.write(20)
	p.ready()
	p.kill()
	one, two := j.outsider(2), j.outsider(2)
	errs := make(chan error, 2)
	for _, q := range []*process{one, two} {
		go func() { errs <- q.committer.Fence(q.ctx, []stream.Attempt{1}, nil) }()
	}
	one.must(<-errs)
	one.must(<-errs)
	two.fences(nil, 1, 2)
	if left := two.doubt(); len(left) > 0 {
		r.failf("after three fences there are still %q", left)
	}
	p = j.start(2)
	p.write(8)
	p.finishJob()
	j.want(8)
}

// cancelled: the last fence of a job is for its own attempt, and keeps what it has
// published.
func cancelled(r *rig) {
	j := r.job()
	p := j.start(2)
	rd := p.publishes(20)
	if !r.f.OneInFlight {
		p.write(10)
		p.ready()
	}
	p.write(10)
	p.must(p.closeWriters())
	p.fences(p.listed(rd.id), p.attempt.Number())
	p.wantStatus(p.listed(rd.id), sink.Open)
	p = j.start(2)
	j.want(20)
	p.fences(nil, p.attempt.Number())
	if left := p.doubt(); len(left) > 0 {
		r.failf("after the job was cancelled there are still %q", left)
	}
}

// saysLost: what somebody has ended is neither committed nor open; a commit says so,
// again and again, and no row of it is seen. A sink that nobody can take rows from may
// commit it instead.
func saysLost(r *rig) {
	j := r.job()
	p := j.start(2)
	rd := p.publishes(20)
	cs := p.listed(rd.id)
	next := j.outsider(2)
	j.lossy = true
	next.fences(nil, 1) // before anything is committed: an operator's mistake
	permit, err := next.attempt.Restored(rd.id)
	r.must(err)
	for i, s := range next.peek(cs) {
		if s.Status == sink.Open {
			continue
		}
		if s.Status == sink.Committed {
			r.failf("%s was ended, the probe says committed (%s)", sink.Name(&cs[i]), s.Detail)
		}
		next.saysLost(permit, cs[i])
	}
}

func (p *process) saysLost(permit checkpoint.Permit, c checkpoint.Committable) {
	for range 2 {
		res, err := p.direct(permit, c)
		p.must(err)
		if !slices.Contains([]sink.Outcome{sink.Lost, sink.Undecided}, res.Outcome) {
			p.j.r.failf("%s was ended, the commit says %s (%s)", sink.Name(&c), res.Outcome, res.Detail)
		}
	}
	p.j.seesNothingNew(0)
}
