package pipeline

import (
	"context"
	"fmt"
	"slices"
	"time"

	"etl/checkpoint"
	"etl/internal/broken"
	"etl/internal/fault"
	"etl/sink"
	"etl/stream"
)

// did marks a step of the recovery journey.
func (a *attempt) did(step string) {
	id := stream.NoCheckpoint
	if a.restored != nil {
		id = a.restored.ID
	}
	a.o.Listener.Did(step, stream.TaskID{}, id)
	fault.Point("recover." + step)
}

// recover is the recovery journey up to V6: what a lower attempt left is looked
// at, decided, committed, confirmed, and only then fenced. Its order is part of
// correctness: each step destroys evidence that an earlier one needs.
func (a *attempt) recover(ctx context.Context) error {
	candidates, err := a.candidates(ctx)
	if err != nil {
		return err
	}
	a.did("V3")
	if broken.Is(broken.FenceBeforeCommit) {
		if err := a.fence(ctx); err != nil {
			return err
		}
	}
	ev, err := a.evidence(ctx, candidates)
	if err != nil {
		return err
	}
	if err := a.unforgotten(ctx); err != nil {
		return err
	}
	if err := a.decide(ctx, ev); err != nil {
		return err
	}
	a.did("V4")
	if err := a.resolve(ctx, ev); err != nil {
		return err
	}
	a.did("V5")
	if err := a.fence(ctx); err != nil {
		return err
	}
	a.did("V6")
	return nil
}

// candidates is V3: the published checkpoints a restore may come from, oldest
// first, the last one the one that is wanted, all of its objects there.
func (a *attempt) candidates(ctx context.Context) ([]*checkpoint.Metadata, error) {
	all := a.history().Published()
	if from := a.o.Restore.From; from != stream.NoCheckpoint {
		i := slices.IndexFunc(all, func(m *checkpoint.Metadata) bool { return m.ID == from })
		if i < 0 {
			return nil, stream.Errorf(stream.RestoreRefused, "restore.not_found", "restore", from.String(), "no such checkpoint is retained").
				WithFix("list them with: etl checkpoints ls FILE")
		}
		all = all[:i+1]
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, checkpoint.VerifyObjects(ctx, a.o.Storage, all[len(all)-1])
}

// evidence is the read-only half of V4: every committable that is not confirmed
// is probed, and the marker of every lane is read. Nothing is changed.
func (a *attempt) evidence(ctx context.Context, candidates []*checkpoint.Metadata) (*sink.Evidence, error) {
	h := a.history()
	ev := &sink.Evidence{Published: candidates, Confirmed: h.Confirmed(), Probed: map[string]sink.Probed{}, Markers: map[stream.TaskID]stream.CheckpointID{}}
	for _, m := range h.Published() {
		byUID := map[stream.UID][]checkpoint.Committable{}
		for _, c := range m.Committables {
			if _, known := ev.Probed[sink.Name(&c)]; !known && c.Checkpoint > ev.Confirmed[c.Lane()] {
				byUID[c.Sink] = append(byUID[c.Sink], c)
			}
		}
		for uid, cs := range byUID {
			if err := a.probe(ctx, ev, uid, cs, m.PublishedAt); err != nil {
				return nil, err
			}
		}
	}
	return ev, a.readMarkers(ctx, ev)
}

func (a *attempt) probe(ctx context.Context, ev *sink.Evidence, uid stream.UID, cs []checkpoint.Committable, published time.Time) error {
	c := a.committers[uid]
	if c == nil {
		return stream.Errorf(stream.RestoreRefused, "restore.sink_gone", "restore", string(uid), "%d prepared transactions need the sink, which the pipeline no longer has", len(cs)).
			WithFix("start once more with the sink, stop the job, then remove it")
	}
	got, err := c.Probe(ctx, cs, published)
	if err != nil {
		return fmt.Errorf("probe %s: %w", uid, err)
	}
	for i := range cs {
		ev.Probed[sink.Name(&cs[i])] = got[i]
	}
	return nil
}

// readMarkers reads the marker of every lane that this or an earlier attempt may
// have written through: lanes that are no more among them, and those that only a
// checkpoint beyond the wanted one, or an abandoned one, knows.
func (a *attempt) readMarkers(ctx context.Context, ev *sink.Evidence) error {
	for uid, c := range a.committers {
		n := a.graph.Node(uid)
		if !n.Sink.Features.Marker {
			continue
		}
		subtasks := a.graph.parallelism(n)
		for _, m := range a.history().Checkpoints() {
			if old := stored(m, uid); old != nil {
				subtasks = max(subtasks, old.Parallelism)
			}
		}
		for i := range subtasks {
			id, err := c.Marker(ctx, i)
			if err != nil {
				return fmt.Errorf("read marker of %s/%d: %w", uid, i, err)
			}
			if id > a.history().Accepted() {
				ev.Markers[stream.TaskID{UID: uid, Subtask: i}] = id
			}
		}
	}
	return nil
}

// decide is step V4 once everything was probed, with the refusals of V3 that need
// evidence.
func (a *attempt) decide(ctx context.Context, ev *sink.Evidence) error {
	if len(ev.Published) == 0 {
		return a.decideFresh(ev)
	}
	wanted := ev.Published[len(ev.Published)-1]
	ahead := ev.Ahead(wanted, a.history())
	if len(ahead) > 0 && !a.o.Restore.AcceptDuplicates {
		fix := "restore the newest checkpoint"
		if n := a.history().Newest(); n != nil && n.ID == wanted.ID {
			fix = "this is the newest checkpoint the storage has: point storage at where the later ones are"
		}
		return stream.Errorf(stream.RestoreRefused, "restore.sink_ahead", "restore", wanted.ID.String(),
			"the sinks are ahead of the checkpoint: %v; restoring it would write these rows again", ahead).
			WithFix("%s, or accept the duplicates with --accept-duplicates", fix)
	}
	if len(ahead) > 0 {
		ev.Published, ev.AcceptAhead = []*checkpoint.Metadata{wanted}, true
	}
	d, err := sink.Decide(*ev)
	if err != nil {
		return err
	}
	a.restored, a.open = d.Restore, d.Commit
	return a.abandon(ctx, d)
}

// decideFresh refuses to begin a new life over the traces of an old one (I12).
func (a *attempt) decideFresh(ev *sink.Evidence) error {
	for lane, id := range ev.Markers {
		return stream.Errorf(stream.RestoreRefused, "restore.marker_without_log", "restore", lane.String(),
			"the sink says that checkpoint %s was committed, and the storage has no checkpoint", id).
			WithFix("point storage at the job's old checkpoints")
	}
	return nil
}

// abandon takes every published checkpoint newer than the restored one out of the
// line of restores, fences, and looks at the markers again: an older attempt may
// hold a permit for one of them.
func (a *attempt) abandon(ctx context.Context, d sink.Decision) error {
	var newer []stream.CheckpointID
	for _, m := range a.history().Published() {
		if m.ID > d.Restore.ID {
			newer = append(newer, m.ID)
		}
	}
	if len(newer) == 0 {
		return nil
	}
	for _, id := range newer {
		if err := a.log.Abandon(ctx, id, "restored "+d.Restore.ID.String()+": "+d.Why, a.o.Restore.AcceptDuplicates); err != nil {
			return err
		}
	}
	if err := a.fenceExcept(ctx, d.Commit); err != nil {
		return err
	}
	return a.unmoved(ctx, d.Restore.ID)
}

// unmoved is step V8: it fails when a lane has committed something beyond id, unless duplicates
// were accepted (V4, V8).
func (a *attempt) unmoved(ctx context.Context, id stream.CheckpointID) error {
	if a.o.Restore.AcceptDuplicates {
		return nil
	}
	ev := &sink.Evidence{Markers: map[stream.TaskID]stream.CheckpointID{}, Published: a.history().Published()}
	if err := a.readMarkers(ctx, ev); err != nil {
		return err
	}
	for lane, marker := range ev.Markers {
		if marker > id {
			return stream.Errorf(stream.DataLoss, "restore.marker_moved", "restore", id.String(),
				"%s has committed %s meanwhile, by an older attempt", lane, marker)
		}
	}
	return nil
}

// resolve is V5: commit what the restored checkpoint lists, each lane in id
// order, verify, and note it durably before anything is fenced. What can wait
// (sink.Features.Deferred) is left to its lanes, and is noted when it is done.
func (a *attempt) resolve(ctx context.Context, ev *sink.Evidence) error {
	if a.restored == nil || broken.Is(broken.NoCommitOnRecovery) {
		return nil
	}
	permit, err := a.log.Restored(a.restored.ID)
	if err != nil {
		return err
	}
	a.tellOpen()
	a.ledger.Restore(permit, a.open, ev.Confirmed)
	if err := a.settled(ctx, a.restored.ID); err != nil {
		return err
	}
	fault.Point("recover.committed")
	lanes := map[stream.TaskID]stream.CheckpointID{}
	for i := range a.restored.Committables {
		lanes[a.restored.Committables[i].Lane()] = a.restored.ID
	}
	for _, waiting := range a.ledger.Waiting(a.restored.ID) {
		delete(lanes, waiting)
	}
	return a.log.Confirm(ctx, lanes)
}

// tellOpen tells the listener what an earlier attempt has prepared. When it began is not
// stored: its checkpoint was triggered later.
func (a *attempt) tellOpen() {
	for i := range a.open {
		c, m := &a.open[i], a.restored
		if own := a.history().Find(c.Checkpoint); own != nil {
			m = own
		}
		a.o.Listener.OnTransaction(stream.TransactionEvent{Task: c.Lane(), ID: c.Checkpoint, State: stream.TransactionPrepared,
			Begun: m.TriggeredAt, Logged: c.Logged()})
	}
}

// settled waits until everything up to id is resolved that cannot wait.
func (a *attempt) settled(ctx context.Context, id stream.CheckpointID) error {
	for slices.ContainsFunc(a.ledger.Waiting(id), func(t stream.TaskID) bool { return !a.deferred(t.UID) }) {
		select {
		case <-a.resolved:
		case err := <-a.errs:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// deferred reports whether what a sink has prepared can wait for its lanes.
func (a *attempt) deferred(uid stream.UID) bool {
	n := a.graph.Node(uid)
	return n != nil && n.Sink != nil && n.Sink.Features.Deferred
}

// fence is V6: abort and clean what lower attempts left. What the restored
// checkpoint lists is resolved by now, but for what was left to the lanes.
func (a *attempt) fence(ctx context.Context) error {
	var keep []checkpoint.Committable
	if a.restored != nil {
		keep, _ = a.ledger.List(a.restored.ID)
	}
	return a.fenceExcept(ctx, keep)
}

func (a *attempt) fenceExcept(ctx context.Context, keep []checkpoint.Committable) error {
	owners := a.history().Owners(a.number())
	if len(owners) == 0 {
		return nil
	}
	for uid, c := range a.committers {
		if err := c.Fence(ctx, owners, of(uid, keep)); err != nil {
			return fmt.Errorf("fence %s: %w", uid, err)
		}
		fault.Point("recover.fenced")
	}
	return nil
}

// of returns the committables of one sink.
func of(uid stream.UID, cs []checkpoint.Committable) (own []checkpoint.Committable) {
	for _, c := range cs {
		if c.Sink == uid {
			own = append(own, c)
		}
	}
	return own
}
