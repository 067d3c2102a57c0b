package checkpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"etl/internal/broken"
	"etl/state"
	"etl/stream"
)

// build puts the metadata of a checkpoint together from the acknowledgements and
// the ledger (I6, I11).
func (r *Runner) build(e Publish) (*Metadata, map[stream.TaskID]stream.CheckpointID) {
	m := r.o.Template
	m.Version, m.ID, m.Kind = MetadataVersion, e.ID, e.Kind.String()
	m.Lineage, m.TriggeredAt = r.o.Attempt.Lineage(), e.TriggeredAt.UTC()
	m.Previous = r.previous
	m.Statistics = Statistics{Duration: r.now().Sub(e.TriggeredAt)}
	for _, a := range r.acks[e.ID] {
		m.Tasks = append(m.Tasks, a.States...)
		m.Statistics.Alignment = max(m.Statistics.Alignment, a.Alignment)
		m.Statistics.Sync = max(m.Statistics.Sync, a.Sync)
		m.Statistics.Persist = max(m.Statistics.Persist, a.Persist)
		m.Statistics.Delta += a.Delta
	}
	slices.SortFunc(m.Tasks, func(a, b TaskState) int { return stream.CompareTasks(a.TaskID, b.TaskID) })
	m.Objects(func(h state.Handle) { m.Statistics.Size += h.Size })
	cs, confirmed := r.o.Ledger.List(e.ID)
	if broken.Is(broken.AbortedCommitUnlisted) {
		cs = slices.DeleteFunc(cs, func(c Committable) bool { return r.aborted[c.Checkpoint] })
	}
	ranges := r.ranges(&m)
	for i := range cs {
		if cs[i].Sources == nil {
			cs[i].Sources = ranges
		}
	}
	m.Committables, m.ConfirmedThrough = cs, Lanes(confirmed)
	return &m, confirmed
}

func splitKey(uid stream.UID, s *stream.Split) string {
	return fmt.Sprintf("%s %s %d", uid, s.Topic, s.Partition)
}

// ranges returns the source offsets between the last publication and m.
func (r *Runner) ranges(m *Metadata) (out []stream.Range) {
	for uid, splits := range m.Splits() {
		for i := range splits {
			s := &splits[i]
			from := int64(0)
			if old, ok := r.splits[splitKey(uid, s)]; ok {
				from = old.NextOffset
			}
			if from < s.NextOffset {
				out = append(out, stream.Range{Topic: s.Topic, Partition: s.Partition, From: from, To: s.NextOffset})
			}
		}
	}
	return out
}

func (r *Runner) remember(m *Metadata) {
	for uid, splits := range m.Splits() {
		for i := range splits {
			r.splits[splitKey(uid, &splits[i])] = splits[i]
		}
	}
}

// confirm is step B11: it looks which published checkpoints have all their commits verified (B11).
// A sink may always be a checkpoint behind: what a confirmed one allows does not wait for
// those behind it.
func (r *Runner) confirm() {
	var newest *publication
	for len(r.published) > 0 && r.o.Ledger.Settled(r.published[0].meta.ID) {
		p := r.published[0]
		r.published = r.published[1:]
		r.o.Listener.Did("B11", stream.TaskID{}, p.meta.ID)
		r.tell(event(p.meta, "confirmed", r.now()))
		newest = p
		r.local = append(r.local, Confirmed{At: r.now(), ID: p.meta.ID})
	}
	if newest == nil {
		return
	}
	select {
	case r.jobs <- func(ctx context.Context) { r.settle(ctx, newest) }:
	default: // the scribe is behind: the next confirmation does the same again
	}
}

// settle does what a confirmed checkpoint allows: report its offsets, delete what
// it subsumes. Neither is needed for correctness; a failure is for the log.
func (r *Runner) settle(ctx context.Context, p *publication) {
	if r.o.Report != nil {
		r.o.Report(ctx, p.permit, p.meta)
	}
	if r.o.Retain != nil {
		if err := r.o.Retain(ctx); err != nil && ctx.Err() == nil {
			r.o.World.Log.Warn("old checkpoints could not be deleted", "error", err)
		}
	}
}

// finish notes durably that everything is resolved, and ends the run (I17).
func (r *Runner) finish(ctx context.Context) {
	if r.o.Policy.Mode == None {
		r.end(nil)
		return
	}
	_, confirmed := r.o.Ledger.List(stream.NoCheckpoint)
	r.job(ctx, func(ctx context.Context) {
		err := r.o.Attempt.Confirm(ctx, confirmed)
		r.results <- func() Event { r.end(err); return nil }
	})
}

func event(m *Metadata, phase string, now time.Time) stream.CheckpointEvent {
	kind := stream.Periodic
	if m.Kind == stream.Final.String() {
		kind = stream.Final
	}
	return stream.CheckpointEvent{ID: m.ID, Kind: kind, Phase: phase, Duration: now.Sub(m.TriggeredAt),
		Alignment: m.Statistics.Alignment, Sync: m.Statistics.Sync, Delta: m.Statistics.Delta, Size: m.Statistics.Size}
}

// HistoryPrefix is where the journal of checkpoints lies in storage: one line of
// JSON for each turn in a checkpoint's life, by attempt.
const HistoryPrefix = "history/"

// HistoryLine is one line of the journal. It is for people: nothing of the
// protocol reads it.
type HistoryLine struct {
	At       time.Time           `json:"at"`
	ID       stream.CheckpointID `json:"id"`
	Kind     string              `json:"kind"`
	Phase    string              `json:"phase"`
	Duration time.Duration       `json:"duration,omitempty"`
	Align    time.Duration       `json:"alignment,omitempty"`
	Sync     time.Duration       `json:"sync,omitempty"`
	Delta    int64               `json:"delta,omitempty"`
	Size     int64               `json:"size,omitempty"`
	Reason   string              `json:"reason,omitempty"`
	Error    string              `json:"error,omitempty"`
}

// tell informs the listener and the journal.
func (r *Runner) tell(e stream.CheckpointEvent) {
	e.At = r.now()
	r.o.Listener.OnCheckpoint(e)
	if e.Phase == "triggered" {
		return
	}
	l := HistoryLine{At: e.At.UTC(), ID: e.ID, Kind: e.Kind.String(), Phase: e.Phase, Duration: e.Duration, Align: e.Alignment,
		Sync: e.Sync, Delta: e.Delta, Size: e.Size, Reason: e.Reason}
	if e.Err != nil {
		l.Error = e.Err.Error()
	}
	line, err := json.Marshal(l)
	if err != nil {
		return
	}
	name := fmt.Sprintf("%s%06d", HistoryPrefix, r.o.Attempt.Number())
	select {
	case r.jobs <- func(ctx context.Context) { _ = r.o.Storage.Note(ctx, name, line) }:
	default: // the journal is best effort
	}
}
