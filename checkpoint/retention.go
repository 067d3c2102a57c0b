package checkpoint

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"etl/internal/fault"
	"etl/state"
	"etl/stream"
)

// Retention deletes what no later start can need. It belongs to one attempt and
// is used by the goroutine that uses the attempt.
//
// Entries go before objects: a checkpoint is unpublished for good before anything
// it reaches is touched, so that whenever the process dies, each checkpoint that
// the log still shows can be restored. What has to go is worked off in order over
// all calls, for the same reason: an object may be unreachable only because an
// entry of an earlier call is gone.
//
// What is reachable is counted from the metadata of the retained checkpoints,
// never from a listing (I18). An object the running attempt made and did not list
// yet is in no dropped metadata, and so is not a candidate. In return, an object
// that a published checkpoint no longer lists must not be listed by a later one.
type Retention struct {
	a       *Attempt
	st      Storage
	keep    int
	backlog []string
}

// keptJournals is the number of attempts whose journals are kept.
const keptJournals = 50

// NewRetention returns the retention of an attempt that keeps the newest keep
// published checkpoints; 2 is the least.
func NewRetention(a *Attempt, st Storage, keep int) *Retention {
	return &Retention{a: a, st: st, keep: max(keep, 2)}
}

// Run deletes what the newest confirmed checkpoint has subsumed, and forgets it
// in the attempt's history. A failure leaves the rest to the next call.
func (r *Retention) Run(ctx context.Context) error {
	names, seqs := planRetention(r.a.history, r.keep)
	r.a.history.forget(seqs)
	r.backlog = append(r.backlog, names...)
	return r.work(ctx)
}

// Sweep deletes what earlier attempts left and nothing retained reaches: uploads
// that never came to be listed, and the rest of an interrupted deletion. It is
// done once, after recovery has decided which checkpoint the attempt begins from.
func (r *Retention) Sweep(ctx context.Context) error {
	objects, err := r.st.List(ctx, objectPrefix)
	if err != nil {
		return err
	}
	journals, err := r.st.List(ctx, HistoryPrefix)
	if err != nil {
		return err
	}
	r.backlog = append(r.backlog, planSweep(r.a.history, r.a.number, objects)...)
	r.backlog = append(r.backlog, planJournals(r.a.number, journals)...)
	return r.work(ctx)
}

// Purge deletes everything but the log's bare bones, after Attempt.Close: for
// on_cancel: delete. Without the closed entry it refuses: another attempt may own
// the job by now.
func (r *Retention) Purge(ctx context.Context) error {
	if es := r.a.history.Entries; len(es) == 0 || es[len(es)-1].Kind != EntryClosed {
		return fmt.Errorf("checkpoints are not deleted: the log is not closed")
	}
	if err := r.Run(ctx); err != nil {
		return err
	}
	for _, prefix := range []string{objectPrefix, HistoryPrefix} {
		infos, err := r.st.List(ctx, prefix)
		if err != nil {
			return err
		}
		for _, in := range infos {
			r.backlog = append(r.backlog, in.Name)
		}
	}
	return r.work(ctx)
}

func (r *Retention) work(ctx context.Context) error {
	for len(r.backlog) > 0 {
		fault.Point("retention.delete")
		if err := r.st.Delete(ctx, r.backlog[0]); err != nil {
			return storageError("delete "+r.backlog[0], r.st, err)
		}
		r.backlog = r.backlog[1:]
	}
	return nil
}

// planRetention returns what has to be deleted, in that order, so that the newest
// keep published checkpoints stay, and the entries among it.
func planRetention(h *History, keep int) (names []string, seqs map[uint64]bool) {
	seqs = dropCheckpoints(h, keep)
	dropAbandoned(h, seqs)
	dropConfirmed(h, seqs)
	reached := map[string]bool{}
	for i := range h.Entries {
		if e := &h.Entries[i]; e.Kind == EntryCheckpoint && !seqs[e.Seq] {
			e.Metadata.Objects(func(o state.Handle) { reached[o.Object] = true })
		}
	}
	// Checkpoints first: one of them might be restorable again once the entry that
	// abandons it is gone.
	for _, kind := range []EntryKind{EntryCheckpoint, EntryAbandoned, EntryConfirmed} {
		for _, e := range h.Entries {
			if e.Kind == kind && seqs[e.Seq] {
				names = append(names, entryName(e.Seq))
			}
		}
	}
	var objects []string
	for i := range h.Entries {
		if e := &h.Entries[i]; e.Kind == EntryCheckpoint && seqs[e.Seq] {
			e.Metadata.Objects(func(o state.Handle) {
				if !reached[o.Object] {
					reached[o.Object] = true // list it once
					objects = append(objects, o.Object)
				}
			})
		}
	}
	return append(names, objects...), seqs
}

// dropCheckpoints chooses the checkpoints that go: those older than the newest
// keep published ones, abandoned ones among them, and all of an earlier life. The
// newest one that nothing is open of stays, however many are published behind it: it is
// what is left when a sink loses what it has prepared since.
func dropCheckpoints(h *History, keep int) map[uint64]bool {
	oldest := stream.NoCheckpoint
	if p := h.Published(); len(p) > keep {
		oldest = min(p[len(p)-keep].ID, h.settled(p))
	}
	life, seqs := h.Lineage(), map[uint64]bool{}
	for _, e := range h.Entries {
		if e.Kind == EntryCheckpoint && (e.Lineage != life || e.Metadata.ID < oldest) {
			seqs[e.Seq] = true
		}
	}
	h.spareLast(seqs)
	return seqs
}

// settled returns the newest of the given checkpoints that lists nothing unresolved, as
// far as the log tells; NoCheckpoint for none.
func (h *History) settled(published []*Metadata) stream.CheckpointID {
	done := h.Confirmed()
	for _, m := range slices.Backward(published) {
		if !slices.ContainsFunc(m.Committables, func(c Committable) bool { return c.Checkpoint > done[c.Lane()] }) {
			return m.ID
		}
	}
	return stream.NoCheckpoint
}

// spareLast keeps the entry with the highest number, which says where the log
// ends.
func (h *History) spareLast(seqs map[uint64]bool) { delete(seqs, h.Next()-1) }

// dropAbandoned adds the entries that abandon what is no longer there.
func dropAbandoned(h *History, seqs map[uint64]bool) {
	there := map[stream.CheckpointID]bool{}
	for _, e := range h.Entries {
		if e.Kind == EntryCheckpoint && !seqs[e.Seq] {
			there[e.Metadata.ID] = true
		}
	}
	for _, e := range h.Entries {
		if e.Kind == EntryAbandoned && !there[e.Abandoned] {
			seqs[e.Seq] = true
		}
	}
	h.spareLast(seqs)
}

// dropConfirmed adds the confirmations that entries which stay repeat.
func dropConfirmed(h *History, seqs map[uint64]bool) {
	life, later := h.Lineage(), map[string]stream.CheckpointID{}
	for i := len(h.Entries) - 1; i >= 0; i-- {
		e := &h.Entries[i]
		switch {
		case seqs[e.Seq]:
		case e.Kind == EntryCheckpoint:
			raise(later, e.Metadata.ConfirmedThrough)
		case e.Kind == EntryConfirmed:
			if e.Lineage != life || covers(later, e.Confirmed) {
				seqs[e.Seq] = true
			} else {
				raise(later, e.Confirmed)
			}
		}
	}
	h.spareLast(seqs)
}

func raise(m, by map[string]stream.CheckpointID) {
	for lane, id := range by {
		m[lane] = max(m[lane], id)
	}
}

func covers(m, all map[string]stream.CheckpointID) bool {
	for lane, id := range all {
		if m[lane] < id {
			return false
		}
	}
	return true
}

// forget drops entries from memory, so that a history does not grow with the age
// of its attempt.
func (h *History) forget(seqs map[uint64]bool) {
	if len(seqs) > 0 {
		h.Entries = slices.DeleteFunc(h.Entries, func(e Entry) bool { return seqs[e.Seq] })
	}
}

// planSweep returns the objects of attempts below self that no checkpoint of the
// current life reaches. Names it cannot read are left alone.
func planSweep(h *History, self stream.Attempt, objects []Info) (names []string) {
	life, reached := h.Lineage(), map[string]bool{}
	for i := range h.Entries {
		if e := &h.Entries[i]; e.Kind == EntryCheckpoint && e.Lineage == life {
			e.Metadata.Objects(func(o state.Handle) { reached[o.Object] = true })
		}
	}
	for _, o := range objects {
		if a, ok := objectAttempt(o.Name); ok && a < self && !reached[o.Name] {
			names = append(names, o.Name)
		}
	}
	return names
}

// planJournals returns the journals of attempts long past.
func planJournals(self stream.Attempt, journals []Info) (names []string) {
	oldest := fmt.Sprintf("%s%06d", HistoryPrefix, self-min(self, keptJournals))
	for _, j := range journals {
		if strings.Compare(j.Name, oldest) < 0 {
			names = append(names, j.Name)
		}
	}
	return names
}
