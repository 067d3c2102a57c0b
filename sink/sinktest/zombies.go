package sinktest

import (
	"context"
	"fmt"

	"etl/checkpoint"
	"etl/sink"
	"etl/stream"
)

var zombieRules = []rule{
	{"a zombie finishes in vain", committing, finishesLate},
	{"a zombie writes in vain", committing, writesLate},
	{"a zombie commits in vain", committing, commitsLate},
	{"a zombie commits nothing that was abandoned", all(committing, telling), commitsAbandoned},
	{"a zombie fences nobody", committing, fencesLate},
}

// finishesLate: a process that was stopped before its Finish goes on when its successor
// is at work. Whatever it prepares is never seen, and the attempt after clears it away.
func finishesLate(r *rig) {
	j := r.job()
	zombie := j.start(2)
	zombie.write(10)
	zombie.checkpoint()
	zombie.write(20)
	rd := zombie.prepare()
	p := j.start(2)
	p.checkpoint()
	p.write(5)
	mine := p.ready() // as many-th of its attempt as the zombie's
	err := zombie.tryFinish(rd)
	r.note("the zombie's Finish: %v", err)
	if err == nil {
		r.refuses("the zombie's publication", zombie.tryPublish(rd), stream.Fenced)
	}
	p.publish(mine)
	p.settle()
	p.write(5)
	p.checkpoint()
	j.want(20)
	zombie.gone = true
	_ = zombie.tryClose()
	j.endsClean(p, 20)
}

// endsClean ends p, and checks with one more attempt that nothing is left of others.
func (j *job) endsClean(p *process, rows int) {
	p.finishJob()
	j.want(rows)
	p = j.start(1)
	if !j.r.commits() {
		return
	}
	if left := p.doubt(); len(left) > 0 {
		j.r.failf("everything before attempt %d should have ended; left are %q", p.attempt.Number(), left)
	}
	p.write(1)
	p.finishJob()
	j.want(rows + 1)
}

// writesLate: it goes on to write, and takes whole checkpoints, as far as it gets.
func writesLate(r *rig) {
	j := r.job()
	zombie := j.start(2)
	zombie.write(10)
	zombie.checkpoint()
	zombie.write(3)
	p := j.start(2)
	p.write(5)
	p.checkpoint()
	p.write(5)
	rd := p.ready() // as many-th of its attempt as the zombie's next
	zombie.goesOn()
	p.publish(rd)
	zombie.goesOn()
	p.settle()
	j.want(20)
	_ = zombie.tryClose()
	j.endsClean(p, 20)
}

// goesOn does what a process does that does not know yet; all of it may fail.
func (p *process) goesOn() {
	written := p.j.written
	err := p.tryWrite(4)
	if p.j.r.f.Transactional {
		p.j.written = written // nobody will ever see them
	}
	var rd *round
	if err == nil {
		rd, err = p.tryPrepare()
	}
	if err == nil {
		err = p.tryFinish(rd)
	}
	if err == nil {
		err = p.tryPublish(rd)
		p.j.r.refuses("a zombie's publication", err, stream.Fenced)
	}
	p.j.r.note("the zombie notices: %v", err)
}

// commitsLate: it holds a permit for what its successor has committed, and goes on to
// commit it.
func commitsLate(r *rig) {
	j := r.job()
	zombie := j.start(2)
	rd := zombie.publishes(20)
	cs := zombie.listed(rd.id)
	p := j.start(2)
	p.publishes(10)
	zombie.commitsInVain(cs, sink.Already, sink.Done)
	p.settle()
	zombie.commitsInVain(cs, sink.Already, sink.Done)
	p.write(5)
	p.finishJob()
	j.want(35)
}

// commitsInVain commits; an error is as good as one of the outcomes.
func (p *process) commitsInVain(cs []checkpoint.Committable, outcomes ...sink.Outcome) {
	for _, c := range cs {
		res, err := p.direct(p.permit, c)
		for _, o := range outcomes {
			if err == nil && res.Outcome == o {
				err = fmt.Errorf("%s", o)
			}
		}
		if err == nil {
			p.j.r.failf("a zombie's commit of %s: %s (%s)", sink.Name(&c), res.Outcome, res.Detail)
		}
		p.j.r.note("a zombie's commit: %v", err)
	}
}

// commitsAbandoned: it holds a permit for a checkpoint that its successor has taken out
// of the line of restores. From the fence on it must not be able to commit it: the
// successor writes these rows again.
func commitsAbandoned(r *rig) {
	j := r.job()
	zombie := j.start(2)
	zombie.write(20)
	old := zombie.checkpoint()
	rd := zombie.publishes(20)
	cs := zombie.listed(rd.id)
	p := j.outsider(2)
	r.must(p.attempt.Abandon(p.ctx, rd.id, "for the test", false))
	j.limit = old.at
	p.fences(nil, 1)
	zombie.commitsInVain(cs, sink.Lost, sink.Undecided)
	j.seesNothingNew(20)
	p = j.start(2)
	zombie.commitsInVain(cs, sink.Lost, sink.Undecided)
	p.write(20)
	p.checkpoint()
	zombie.commitsInVain(cs, sink.Lost, sink.Undecided, sink.Already) // of the newer marker
	p.finishJob()
	j.want(40)
}

// fencesLate: it was stopped in the middle of its recovery and goes on to fence the
// attempts before it. Its successor is none of them.
func fencesLate(r *rig) {
	j := r.job()
	first := j.start(2)
	first.publishes(10)
	first.kill()
	zombie := j.outsider(2)
	p := j.start(2)
	p.write(10)
	rd := p.ready()
	_ = zombie.tryFence(nil, 1)
	p.publish(rd)
	_ = zombie.tryFence(nil, 1)
	p.settle()
	p.write(10)
	_ = zombie.call("commit late", func(ctx context.Context) error {
		permit, err := zombie.attempt.Restored(zombie.attempt.History().Newest().ID)
		if err == nil {
			for _, c := range zombie.listed(permit.ID()) {
				_, err = zombie.committer.Commit(ctx, permit, c)
			}
		}
		return err
	})
	_ = zombie.tryFence(nil, 1)
	p.finishJob()
	j.want(30)
}
