package sinktest

import "context"

var rejectRules = []rule{
	{"a row found bad in Write is rejected once", badRows(func(h *Harness) bool { return h.BadAtWrite != nil }), rejects1},
	{"a row found bad in Finish comes with the next epoch", badRows(func(h *Harness) bool { return h.BadInFinish != nil }), foundLate},
	{"a row found bad survives a restart", badRows(func(h *Harness) bool { return h.BadInFinish != nil }), foundLateAndKilled},
	{"a row without its key is rejected", needsKey, keyless},
}

func badRows(can func(*Harness) bool) func(*rig) string {
	return func(r *rig) string {
		if !can(r.h) {
			return "the harness knows no such row"
		}
		return ""
	}
}

func needsKey(r *rig) string {
	if !r.f.NeedsKey {
		return "the sink needs no key"
	}
	return ""
}

// spoiledJob is a job some of whose rows cannot be written.
func (r *rig) spoiledJob() *job {
	j := r.job()
	j.spoiled = true
	return j
}

// rejects1: the bad row goes to Output, the others to readers; also when an epoch has
// no others.
func rejects1(r *rig) {
	j := r.spoiledJob()
	p := j.start(2)
	p.write(5)
	p.checkpoint()
	p.write(1) // row 5 is bad
	p.checkpoint()
	p.write(30)
	p.abort(p.ready())
	p.write(10)
	p.finishJob()
	j.want(46)
	j.wantRejects(46)
}

// foundLate: a row found bad in Finish(n) is rejected by the next PrepareCommit, which
// an abort of n does not change; More asks for that next one at the end of a job.
func foundLate(r *rig) {
	j := r.spoiledJob()
	p := j.start(2)
	p.write(20)
	p.checkpoint()
	p.write(20)
	p.abort(p.ready())
	p.write(20)
	p.finishJob()
	j.want(60)
	j.wantRejects(60)
}

// foundLateAndKilled: until then it lies in the checkpoint, and a restart rejects it.
func foundLateAndKilled(r *rig) {
	j := r.spoiledJob()
	rows := 0
	for range 3 {
		p := j.start(2)
		p.write(22)
		rows += 22
		p.publish(p.ready())
		p.write(22)
		p.abort(p.ready())
		p.kill()
	}
	j.start(2).finishJob()
	j.want(rows)
	j.wantRejects(rows)
}

// keyless: a row without a key cannot be written to a sink that needs one.
func keyless(r *rig) {
	j := r.job()
	p := j.start(1)
	p.write(3)
	b := p.batches.make()
	rec := j.record(b, 3)
	rec.Key, rec.Group = nil, nil
	b.Append(rec)
	p.batches.own(b)
	p.do("write a row without a key", func(ctx context.Context) error {
		return p.writers[0].Write(ctx, b, p.rejects.into(p.next()))
	})
	rd := p.ready()
	p.publish(rd)
	p.settle()
	if len(j.rejected) != 1 {
		r.failf("a row without a key: %d rejects at checkpoint %s", len(j.rejected), rd.id)
	}
	j.want(3)
}
