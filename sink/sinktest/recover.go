package sinktest

import (
	"context"
	"fmt"
	"time"

	"etl/checkpoint"
	"etl/sink"
	"etl/stream"
)

// start makes an attempt, recovers, and opens the writers.
func (j *job) start(par int) *process {
	p := j.process(par)
	p.must(p.tryStart(stream.NoCheckpoint))
	return p
}

// tryStart is the recovery of the engine from V2 on. from asks for a checkpoint that is
// not the newest.
func (p *process) tryStart(from stream.CheckpointID) error {
	p.j.starts++
	for _, s := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"take over", p.takeOver},
		{"open committer", p.openCommitter},
		{"decide", func(ctx context.Context) error { return p.decide(ctx, from) }},
		{"commit what is published", p.resolve},
		{"fence", p.fence},
		{"look at the markers again", p.unmoved},
		{"open writers", p.openWriters},
	} {
		if err := p.call(s.what, s.do); err != nil {
			return err
		}
		if p.n.isDead() {
			return errDead
		}
	}
	return nil
}

// takeOver is V2.
func (p *process) takeOver(ctx context.Context) (err error) {
	w := p.j.r.h.World
	w.Entropy = p.j.entropy()
	p.attempt, err = checkpoint.OpenAttempt(ctx, p.j.store, checkpoint.AttemptOptions{World: w, Holder: checkpoint.Holder{Host: "test", PID: p.j.starts}})
	if err != nil {
		return err
	}
	p.objects = checkpoint.NewObjects(p.j.store)
	p.uploader = checkpoint.NewUploader(checkpoint.UploaderOptions{Storage: p.j.store, World: p.j.r.h.World, Lineage: p.attempt.Lineage(), Attempt: p.attempt.Number()})
	return nil
}

func (p *process) openCommitter(ctx context.Context) error {
	p.sink = p.j.r.h.Connect(Process{World: p.world(), Parallelism: p.par, Policy: p.j.r.s.Policy, n: p.n})
	p.committer = p.sink.NewCommitter()
	p.lanes = newLanes(p)
	if p.committer == nil {
		return nil
	}
	h := p.attempt.History()
	return p.committer.Open(ctx, sink.CommitEnv{World: p.world(), Job: p.j.name, Lineage: p.attempt.Lineage(), Attempt: p.attempt.Number(), UID: p.j.uid,
		Objects: p.objects, Owners: h.Owners(p.attempt.Number()), Fresh: h.Newest() == nil})
}

// decide is V3 and V4.
func (p *process) decide(ctx context.Context, from stream.CheckpointID) error {
	h := p.attempt.History()
	published := h.Published()
	for len(published) > 0 && from != stream.NoCheckpoint && published[len(published)-1].ID != from {
		published = published[:len(published)-1]
	}
	ev, err := p.evidence(ctx, published)
	if err != nil {
		return err
	}
	if len(published) == 0 {
		return p.begin(ctx, ev)
	}
	wanted := published[len(published)-1]
	if ahead := ev.Ahead(wanted, h); len(ahead) > 0 {
		return stream.Errorf(stream.RestoreRefused, "restore.sink_ahead", "restore", wanted.ID.String(), "%v", ahead)
	}
	d, err := sink.Decide(*ev)
	if err != nil {
		return err
	}
	p.restored, p.at = d.Restore, p.j.position[d.Restore.ID]
	p.j.r.note("restore %s", d.Restore.ID)
	if len(d.Abandon) > 0 && !p.j.lossy {
		return fmt.Errorf("checkpoint %s was finished and published, and cannot be committed any more: %s", d.Abandon, d.Why)
	}
	return p.abandonNewer(ctx, d)
}

// begin is the start of a job that has published nothing: checkpoint 0.
func (p *process) begin(ctx context.Context, ev *sink.Evidence) error {
	for lane, id := range ev.Markers {
		return stream.Errorf(stream.RestoreRefused, "restore.marker_without_log", "restore", lane.String(), "checkpoint %s was committed", id)
	}
	p.restored = p.metadata(stream.NewCheckpointID(p.attempt.Number(), 0), "initial")
	p.j.position[p.restored.ID] = 0
	_, err := p.attempt.Publish(ctx, p.restored)
	return err
}

// evidence probes what is not confirmed and reads the markers.
func (p *process) evidence(ctx context.Context, candidates []*checkpoint.Metadata) (*sink.Evidence, error) {
	h := p.attempt.History()
	ev := &sink.Evidence{Published: candidates, Confirmed: h.Confirmed(), Probed: map[string]sink.Probed{}, Markers: map[stream.TaskID]stream.CheckpointID{}}
	if p.committer == nil {
		return ev, nil
	}
	for _, m := range h.Published() {
		var cs []checkpoint.Committable
		for _, c := range h.Unresolved(m) {
			if _, known := ev.Probed[sink.Name(&c)]; !known {
				cs = append(cs, c)
			}
		}
		got, err := p.probe(ctx, cs, m.PublishedAt)
		if err != nil {
			return nil, err
		}
		for i := range cs {
			ev.Probed[sink.Name(&cs[i])] = got[i]
		}
	}
	return ev, p.readMarkers(ctx, ev)
}

func (p *process) probe(ctx context.Context, cs []checkpoint.Committable, published time.Time) ([]sink.Probed, error) {
	if len(cs) == 0 {
		return nil, nil
	}
	got, err := p.committer.Probe(ctx, cs, published)
	if err == nil && len(got) != len(cs) {
		err = fmt.Errorf("%d answers for %d committables", len(got), len(cs))
	}
	return got, err
}

func (p *process) readMarkers(ctx context.Context, ev *sink.Evidence) error {
	if p.committer == nil || !p.j.r.f.Marker {
		return nil
	}
	subtasks := p.par
	for _, m := range p.attempt.History().Published() {
		for _, o := range m.Operators {
			subtasks = max(subtasks, o.Parallelism)
		}
	}
	for sub := range subtasks {
		id, err := p.committer.Marker(ctx, sub)
		if err != nil {
			return fmt.Errorf("read marker %d: %w", sub, err)
		}
		if id != stream.NoCheckpoint {
			ev.Markers[p.lane(sub)] = id
		}
	}
	return nil
}

// abandonNewer takes newer checkpoints out of the line of restores; then an older
// attempt must not be able to commit them any more.
func (p *process) abandonNewer(ctx context.Context, d sink.Decision) error {
	if len(d.Abandon) == 0 {
		return nil
	}
	for _, id := range d.Abandon {
		if err := p.attempt.Abandon(ctx, id, d.Why, false); err != nil {
			return err
		}
		p.j.r.note("abandon %s", id)
	}
	p.j.limit = p.j.position[d.Restore.ID]
	if err := p.committer.Fence(ctx, p.owners(), d.Commit); err != nil {
		return err
	}
	return p.unmoved(ctx)
}

// owners are the earlier attempts.
func (p *process) owners() []stream.Attempt {
	return p.attempt.History().Owners(p.attempt.Number())
}

// resolve is V5.
func (p *process) resolve(ctx context.Context) error {
	permit, err := p.attempt.Restored(p.restored.ID)
	if err != nil {
		return err
	}
	p.permit, p.published = permit, p.restored.ID
	h := p.attempt.History()
	p.lanes.change(func() { p.lanes.free = true })
	defer p.lanes.change(func() { p.lanes.free = false })
	p.lanes.ledger.Restore(permit, h.Unresolved(p.restored), h.Confirmed())
	if err := p.lanes.until(ctx, func() bool { return p.lanes.ledger.Settled(p.published) }); err != nil {
		return err
	}
	confirmed := map[stream.TaskID]stream.CheckpointID{}
	for _, c := range p.restored.Committables {
		confirmed[c.Lane()] = p.restored.ID
	}
	if p.n.isDead() {
		return errDead
	}
	return p.attempt.Confirm(ctx, confirmed)
}

// fence is V6.
func (p *process) fence(ctx context.Context) error {
	if owners := p.owners(); p.committer != nil && len(owners) > 0 {
		return p.committer.Fence(ctx, owners, nil)
	}
	return nil
}

// unmoved is V8.
func (p *process) unmoved(ctx context.Context) error {
	ev := &sink.Evidence{Markers: map[stream.TaskID]stream.CheckpointID{}}
	if err := p.readMarkers(ctx, ev); err != nil {
		return err
	}
	for lane, id := range ev.Markers {
		if id > p.restored.ID {
			return stream.Errorf(stream.DataLoss, "restore.marker_moved", "restore", lane.String(), "%s was committed meanwhile", id)
		}
	}
	return nil
}

func (p *process) openWriters(ctx context.Context) error {
	for sub := range p.par {
		w := p.sink.NewWriter()
		p.writers = append(p.writers, w)
		if err := w.Open(ctx, p.env(sub), p.stateOf(sub)); err != nil {
			return fmt.Errorf("open writer %d: %w", sub, err)
		}
	}
	p.lanes.change(func() { p.lanes.writers = p.writers })
	return nil
}
