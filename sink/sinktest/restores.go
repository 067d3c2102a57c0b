package sinktest

import (
	"time"

	"etl/sink"
	"etl/stream"
)

var restoreRules = []rule{
	{"one checkpoint is restored again and again", nil, crashLoop},
	{"an older checkpoint is seen to be behind", committing, behind},
	{"committables of another parallelism are committed", nil, rescaled},
	{"a foreign lineage is refused", marked, foreign},
	{"the newest checkpoint is lost, an older one fits", committing, olderFits},
	{"half a checkpoint is no checkpoint", committing, half},
	{"what is prepared has its time", committing, deadline},
}

// crashLoop: an attempt after the other dies before it has taken a checkpoint.
func crashLoop(r *rig) {
	j := r.job()
	p := j.start(2)
	p.publishes(20)
	p.write(6)
	for i := range 4 {
		p.kill()
		p = j.start(2)
		p.write(6)
		if i%2 == 0 {
			p.abort(p.ready())
			p.write(2)
		}
	}
	j.look()
	j.endsClean(p, p.at)
}

// behind: rows after an older checkpoint are committed, or can be. Restoring it would
// write them twice, so it is refused, and the refusal changes nothing.
func behind(r *rig) {
	j := r.job()
	p := j.start(2)
	p.write(10)
	older := p.checkpoint()
	p.publishes(10)
	p.kill()
	r.refuses("an older checkpoint, the newer one not committed", j.process(2).tryStart(older.id), stream.RestoreRefused)
	p = j.start(2)
	j.want(20)
	p.kill()
	if r.f.Marker {
		r.refuses("an older checkpoint, the newer one committed", j.process(2).tryStart(older.id), stream.RestoreRefused)
		for sub := range 2 {
			if m := j.outsider(2).marker(sub); m <= older.id {
				r.failf("the marker of subtask %d is %s, and %s was committed", sub, m, older.id)
			}
		}
	}
	p = j.start(2)
	p.write(5)
	p.finishJob()
	j.want(25)
}

// rescaled: each start has another number of subtasks than the one that prepared.
func rescaled(r *rig) {
	j := r.job()
	rows := 0
	for _, par := range []int{3, 1, 2, 4, 1} {
		p := j.start(par)
		j.want(rows)
		p.write(12)
		p.abort(p.ready())
		p.publishes(6)
		rows += 18
		p.write(3)
		p.kill()
	}
	j.start(2).finishJob()
	j.want(rows)
}

// foreign: storage was lost and a job of the same name begins a new life. Its rows are
// there already, so it is refused, each time; the old life goes on (I12).
func foreign(r *rig) {
	j := r.job()
	p := j.start(2)
	p.write(20)
	p.checkpoint()
	p.publishes(5)
	other := r.otherJob(r.h.Job, sinkUID)
	for range 2 {
		q := other.process(2)
		r.refuses("a fresh job beside another one's markers", q.tryStart(stream.NoCheckpoint), stream.RestoreRefused)
		q.kill()
	}
	p.settle()
	p.write(5)
	p.finishJob()
	j.want(30)
}

// olderFits: the newest checkpoint's transactions have ended before any was committed.
// The one before is exact: everything after it is written again.
func olderFits(r *rig) {
	j := r.job()
	p := j.start(2)
	p.write(10)
	p.checkpoint()
	rd := p.publishes(10)
	p.kill()
	j.lossy = true
	mistake := j.outsider(2)
	mistake.fences(nil, 1)
	if mistake.peek(mistake.listed(rd.id))[0].Status == sink.Open {
		return // nobody can take its rows from this sink
	}
	p = j.start(2)
	if p.at != 10 {
		r.failf("%d rows were restored", p.at)
	}
	p.write(10)
	p.finishJob()
	j.want(20)
}

// half: one lane of the newest checkpoint is committed and another one lost. No
// checkpoint agrees with that, and nothing goes on by itself (I13).
func half(r *rig) {
	j := r.job()
	p := j.start(2)
	p.write(10)
	p.checkpoint()
	rd := p.publishes(10)
	p.commit(0)
	p.kill()
	j.lossy = true
	mistake := j.outsider(2)
	mistake.fences(nil, 1)
	for _, s := range mistake.peek(mistake.listed(rd.id)) {
		if s.Status == sink.Open {
			return
		}
	}
	for range 2 {
		q := j.process(2)
		r.refuses("a checkpoint of which a half is lost", q.tryStart(stream.NoCheckpoint), stream.DataLoss)
		q.kill()
	}
}

// deadline: what is prepared is given up at its deadline, and then lost: never called
// committed. What has no deadline waits for a month.
func deadline(r *rig) {
	if r.h.Advance == nil {
		r.note("time does not pass")
		return
	}
	j := r.job()
	j.lossy = r.f.Timeout > 0
	p := j.start(2)
	p.publishes(20)
	p.kill()
	if r.f.Timeout == 0 {
		r.h.Advance(30 * 24 * time.Hour)
		p = j.start(2)
		j.want(20)
		p.finishJob()
		return
	}
	r.h.Advance(r.f.Timeout + 5*time.Minute)
	next := j.outsider(2)
	next.wantStatus(next.listed(next.attempt.History().Newest().ID), sink.Gone, sink.Unknown)
	q := j.process(2)
	err := q.tryStart(stream.NoCheckpoint)
	if err == nil && q.at > 0 {
		r.failf("rows that were lost are restored")
	}
	j.limit = 0
	j.seesNothingNew(0)
}
