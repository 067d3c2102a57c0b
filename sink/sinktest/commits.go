package sinktest

import (
	"slices"

	"etl/checkpoint"
	"etl/sink"
	"etl/stream"
)

var commitRules = []rule{
	{"rows are visible with their commit", nil, visibleWithCommit},
	{"a commit can be repeated", committing, repeated},
	{"a commit needs its permit", committing, needsPermit},
	{"commits of a lane keep their order", all(marked, several), inOrder},
	{"any process can commit", committing, anyProcess},
	{"the publisher finds it committed by another", committing, committedByAnother},
	{"a committable of another kind is refused", committing, unknownKind},
	{"each lane has its own marker", marked, ownMarker},
	{"a marker answers for what is retired", marked, retired},
}

// visibleWithCommit: nothing is seen of a checkpoint before its commit, all of it
// afterwards. Without transactions it is there when Finish has returned.
func visibleWithCommit(r *rig) {
	j := r.job()
	p := j.start(2)
	p.write(20)
	rd := p.prepare()
	j.seesNothingNew(0)
	p.finish(rd)
	j.seesNothingNew(0)
	if !r.commits() {
		j.want(20)
	}
	p.publish(rd)
	if r.commits() {
		j.seesNothingNew(0)
	}
	for sub := range p.par {
		p.commit(sub)
	}
	j.want(20)
	p.write(10)
	p.finishJob()
	j.want(30)
}

// repeated: committing twice equals committing once (I10), in the same process, in
// another, and after later commits.
func repeated(r *rig) {
	j := r.job()
	p := j.start(2)
	p.write(20)
	first := p.checkpoint()
	cs, permit := p.listed(first.id), p.permit
	p.commitsAgain(permit, cs)
	p.write(10)
	p.checkpoint()
	p.commitsAgain(permit, cs)
	j.want(30)
	other := j.outsider(2)
	again, err := other.attempt.Restored(first.id)
	r.must(err)
	other.commitsAgain(again, cs)
	j.want(30)
}

// needsPermit: without a permit that covers it nothing is committed (I5).
func needsPermit(r *rig) {
	j := r.job()
	p := j.start(2)
	p.write(20)
	first := p.checkpoint()
	early := p.permit
	p.write(20)
	second := p.ready()
	cs, _ := p.lanes.ledger.List(second.id)
	for _, c := range cs {
		_, err := p.direct(checkpoint.Permit{}, c)
		r.refuses("commit without a permit", err)
		_, err = p.direct(early, c)
		r.refuses("commit with the permit of checkpoint "+first.id.String(), err)
	}
	j.want(20)
	p.publish(second)
	p.settle()
	j.want(40)
}

// inOrder: a lane commits in order, so a sink may count on it, and must not be fooled by
// the opposite: rows that come after a later commit are not shown, and the marker does
// not go back, which would call the later commit undone. Refusing the later one is as
// good.
func inOrder(r *rig) {
	j := r.job()
	p := j.start(1)
	p.publishes(10)
	second := p.publishes(10)
	cs := p.lanes.unresolved(p.lane(0), second.id)
	if len(cs) != 2 {
		r.failf("%d committables of two epochs", len(cs))
	}
	if _, err := p.direct(p.permit, cs[1]); err != nil {
		p.settle()
		j.want(20)
		return
	}
	if res, err := p.direct(p.permit, cs[0]); err == nil && res.Outcome == sink.Done {
		r.failf("%s was committed after %s", cs[0].Checkpoint, cs[1].Checkpoint)
	}
	for _, row := range j.look() {
		if row.N < 10 {
			r.failf("row %d is visible after those of a later checkpoint", row.N)
		}
	}
	if m := p.marker(0); m != second.id {
		r.failf("the marker went from %s to %s", second.id, m)
	}
}

// anyProcess: a committable is plain data. The process that wrote is dead.
func anyProcess(r *rig) {
	j := r.job()
	p := j.start(2)
	p.publishes(20)
	p.kill()
	p = j.start(2)
	j.want(20)
	p.write(5)
	p.finishJob()
	j.want(25)
}

// committedByAnother: the process that published goes on to commit after its successor
// has. It is told so, or refused.
func committedByAnother(r *rig) {
	j := r.job()
	p := j.start(2)
	rd := p.publishes(20)
	next := j.start(2)
	j.want(20)
	for _, c := range p.listed(rd.id) {
		if res, err := p.direct(p.permit, c); err == nil && !succeeded(res) {
			r.failf("%s was committed by another attempt; here it is %s (%s)", sink.Name(&c), res.Outcome, res.Detail)
		}
	}
	next.write(5)
	next.finishJob()
	j.want(25)
}

// unknownKind: what a sink cannot read, it neither commits nor calls lost.
func unknownKind(r *rig) {
	j := r.job()
	p := j.start(1)
	rd := p.publishes(10)
	for _, c := range p.listed(rd.id) {
		for _, change := range []func(*checkpoint.Committable){
			func(c *checkpoint.Committable) { c.Kind += "-2" },
			func(c *checkpoint.Committable) { c.Version += 100 },
			func(c *checkpoint.Committable) { c.Payload = append([]byte("?"), c.Payload...) },
		} {
			odd := c
			odd.Payload = slices.Clone(c.Payload)
			change(&odd)
			if res, err := p.direct(p.permit, odd); err == nil {
				r.failf("a committable of kind %q version %d payload %.40q: %s (%s)", odd.Kind, odd.Version, odd.Payload, res.Outcome, res.Detail)
			}
		}
	}
	j.seesNothingNew(0)
	p.settle()
	j.want(10)
}

// ownMarker: the marker of a lane is the newest commit of that very lane.
func ownMarker(r *rig) {
	j := r.job()
	p := j.start(3)
	newest := make([]stream.CheckpointID, p.par+1) // one that was never used, too
	check := func() {
		for sub, want := range newest {
			if got := p.marker(sub); got != want {
				r.failf("the marker of subtask %d is %s instead of %s", sub, got, want)
			}
		}
	}
	check()
	for _, rows := range []int{1, 1, 20, 1, 0, 2} { // one row leaves lanes without
		rd := p.publishes(rows)
		for sub := range p.par {
			cs := p.lanes.unresolved(p.lane(sub), rd.id)
			p.commit(sub)
			for _, c := range cs {
				newest[sub] = max(newest[sub], c.Checkpoint)
			}
			check()
		}
	}
}

// retired: what nobody will ask about again may be forgotten, but not that it was
// committed: restoring an older checkpoint must be seen to be wrong.
func retired(r *rig) {
	j := r.job()
	p := j.start(2)
	p.write(20)
	first := p.checkpoint()
	permit, cs := p.permit, p.listed(first.id)
	for range 2 * r.s.Policy.TolerableFailures { // empty: the marker stays, all before is retired
		p.checkpoint()
	}
	for sub := range p.par {
		if got := p.marker(sub); got != first.id {
			r.failf("the marker of subtask %d is %s instead of %s after it was retired", sub, got, first.id)
		}
	}
	p.commitsAgain(permit, cs)
	for range 12 {
		p.write(7)
		p.checkpoint()
	}
	p.wantStatus(cs, sink.Committed)
	p.commitsAgain(permit, cs)
	j.want(20 + 12*7)
}
