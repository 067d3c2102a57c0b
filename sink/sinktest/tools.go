package sinktest

import (
	"context"
	"slices"
	"strings"

	"etl/checkpoint"
	"etl/sink"
	"etl/stream"
)

// committing rules are for sinks with a committer.
func committing(r *rig) string {
	if !r.commits() {
		return "the sink commits nothing"
	}
	return ""
}

func (r *rig) commits() bool {
	c := r.h.Connect(Process{World: r.h.World, Parallelism: 1, Policy: r.s.Policy, n: newNode(func() {})}).NewCommitter()
	return c != nil
}

// marked rules are for sinks that can read the newest commit of a lane.
func marked(r *rig) string {
	if !r.f.Marker {
		return "the outside holds no marker"
	}
	return committing(r)
}

// telling rules are for sinks whose outside can be asked what it has.
func telling(r *rig) string {
	if r.f.Repeats {
		return "the outside cannot be asked"
	}
	return ""
}

// several rules need two prepared epochs of one subtask.
func several(r *rig) string {
	if r.f.OneInFlight {
		return "a subtask has one epoch in flight"
	}
	return committing(r)
}

// all returns the first reason not to run.
func all(needs ...func(*rig) string) func(*rig) string {
	return func(r *rig) string {
		for _, n := range needs {
			if why := n(r); why != "" {
				return why
			}
		}
		return ""
	}
}

// listed returns what the log says may be committed for a checkpoint.
func (p *process) listed(id stream.CheckpointID) []checkpoint.Committable {
	h, err := checkpoint.ReadHistory(context.Background(), p.j.store)
	p.j.r.must(err)
	m := h.Find(id)
	if m == nil {
		p.j.r.failf("checkpoint %s is not in the log", id)
	}
	return m.Committables
}

// direct commits without the ledger.
func (p *process) direct(permit checkpoint.Permit, c checkpoint.Committable) (res sink.Result, err error) {
	err = p.call("commit "+sink.Name(&c)+" directly", func(ctx context.Context) (err error) {
		for {
			if res, err = p.committer.Commit(ctx, permit, c); err != nil || res.Outcome != sink.Transient {
				return err
			}
		}
	})
	return res, err
}

// succeeded reports whether a commit is done, now or before: not every outside can tell.
func succeeded(r sink.Result) bool { return r.Outcome == sink.Done || r.Outcome == sink.Already }

// commitsAgain commits what is committed, and must be told so.
func (p *process) commitsAgain(permit checkpoint.Permit, cs []checkpoint.Committable) {
	for _, c := range cs {
		if res, err := p.direct(permit, c); err != nil || !succeeded(res) {
			p.j.r.failf("%s was committed; a repetition says %s (%s), %v", sink.Name(&c), res.Outcome, res.Detail, err)
		}
	}
}

// peek probes what a checkpoint lists.
func (p *process) peek(cs []checkpoint.Committable) (out []sink.Probed) {
	p.do("probe", func(ctx context.Context) (err error) {
		out, err = p.probe(ctx, cs, p.j.r.now())
		return err
	})
	return out
}

// wantStatus probes and compares. Where nothing can be asked, everything stays open.
func (p *process) wantStatus(cs []checkpoint.Committable, want ...sink.Status) {
	if p.j.r.f.Repeats {
		want = []sink.Status{sink.Open}
	}
	for i, got := range p.peek(cs) {
		if !slices.Contains(want, got.Status) {
			p.j.r.failf("probe says %s of %s (%s), it should say %v", got.Status, sink.Name(&cs[i]), got.Detail, want)
		}
	}
}

// marker reads the marker of a subtask.
func (p *process) marker(sub int) (id stream.CheckpointID) {
	p.do("read marker", func(ctx context.Context) (err error) {
		id, err = p.committer.Marker(ctx, sub)
		return err
	})
	return id
}

// inspected returns what Inspect lists, sorted by name.
func (p *process) inspected() (out []sink.InDoubt) {
	p.do("inspect", func(ctx context.Context) (err error) {
		out, err = p.committer.Inspect(ctx)
		return err
	})
	slices.SortFunc(out, func(a, b sink.InDoubt) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// doubt returns the names of what is in doubt outside: as the outside tells it, or else
// as Inspect does.
func (p *process) doubt() (names []string) {
	if p.j.r.h.InDoubt == nil {
		for _, d := range p.inspected() {
			names = append(names, d.ID)
		}
		return names
	}
	p.j.r.must(p.j.r.bounded(context.Background(), "list what is in doubt", func(ctx context.Context) (err error) {
		names, err = p.j.r.h.InDoubt(ctx)
		return err
	}))
	slices.Sort(names)
	return names
}

// outsider is a process that took the job over and has opened its committer, no more.
func (j *job) outsider(par int) *process {
	p := j.process(par)
	j.starts++
	p.do("take over", p.takeOver)
	p.do("open committer", p.openCommitter)
	return p
}

// refuses fails unless err has one of the classes.
func (r *rig) refuses(what string, err error, classes ...stream.Class) {
	if err == nil || len(classes) > 0 && !slices.Contains(classes, stream.ClassOf(err)) {
		r.failf("%s: %v (%s), it should be refused %v", what, err, stream.ClassOf(err), classes)
	}
}

// fences calls Fence for some owners.
func (p *process) fences(keep []checkpoint.Committable, owners ...stream.Attempt) {
	p.must(p.tryFence(keep, owners...))
}

func (p *process) tryFence(keep []checkpoint.Committable, owners ...stream.Attempt) error {
	return p.call("fence", func(ctx context.Context) error { return p.committer.Fence(ctx, owners, keep) })
}
