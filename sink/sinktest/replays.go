package sinktest

var replayRules = []rule{
	{"rows are there when their checkpoint is finished", direct, flushed},
	{"a replay shows nothing older", guarded, replayed},
}

func direct(r *rig) string {
	if r.f.Transactional || r.commits() {
		return "the sink shows rows with their checkpoint"
	}
	return ""
}

func guarded(r *rig) string {
	if !r.f.Guarded {
		return "the sink has no guard"
	}
	return ""
}

// flushed: nothing is committed later, so when a checkpoint can be published its rows are
// outside, also when the process dies at this moment.
func flushed(r *rig) {
	j := r.job()
	p := j.start(2)
	for range 3 {
		p.write(9)
		rd := p.ready()
		p.kill()
		seen, err := j.seen(j.look())
		r.must(err)
		for n := range rd.at {
			if !j.covered(seen, n) {
				r.failf("checkpoint %s was finished, and its row %d is not there", rd.id, n)
			}
		}
		p = j.start(2)
		p.write(rd.at - p.at)
		p.checkpoint()
	}
}

// replayed: rows behind the restored checkpoint are written again, some at a time, while a
// reader watches.
func replayed(r *rig) {
	j := r.job()
	p := j.start(2)
	p.write(2 * keysOfJob)
	p.checkpoint()
	p.write(4 * keysOfJob)
	p.finish(p.prepare())
	newest := map[string]int{}
	watch := func(when string) {
		for _, row := range j.look() {
			if row.N < newest[row.Key] {
				r.failf("%s key %s shows row %d, and a reader has seen row %d", when, row.Key, row.N, newest[row.Key])
			}
			newest[row.Key] = row.N
		}
	}
	watch("before the restart")
	p.kill()
	p = j.start(1)
	for range 4 {
		p.write(keysOfJob)
		p.abort(p.ready())
		watch("in the replay")
	}
	p.write(keysOfJob)
	p.finishJob()
	watch("in the end")
	j.want(7 * keysOfJob)
}
