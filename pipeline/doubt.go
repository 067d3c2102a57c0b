package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"etl/checkpoint"
	"etl/sink"
	"etl/stream"
)

// Advice is what is right for something in doubt.
type Advice string

const (
	// AdviseCommit: the checkpoint that a start would restore lists it.
	AdviseCommit Advice = "commit"
	// AdviseAbort: no checkpoint that counts lists it; its rows are read again.
	AdviseAbort Advice = "abort"
	// AdviseHeal: it is decided, and the outside has not finished showing it.
	AdviseHeal Advice = "heal"
	// AdviseLeave: a process that runs owns it, or nothing proves what it is.
	AdviseLeave Advice = "leave"
)

// Doubt is one thing in doubt, and what is known about it.
type Doubt struct {
	sink.InDoubt
	Sink stream.UID
	// Listed is the newest published checkpoint that lists it, NoCheckpoint for none.
	Listed stream.CheckpointID
	Rows   int64
	Status sink.Status
	Advice Advice
	Why    string
}

// Doubts is what a look at a job and its sinks has found, without changing anything.
type Doubts struct {
	// Restore is the checkpoint that a start would restore, NoCheckpoint for none.
	Restore stream.CheckpointID
	// Refused says why a start would refuse to decide; nil when it would not.
	Refused error
	// Holder is the process that runs the job, nil when none does.
	Holder *checkpoint.Holder
	Items  []Doubt
}

// Doubts joins what is in doubt outside with the published checkpoints (V3, V4). It
// only reads, and works while the job is down as well as while it runs; then what it
// returns may be old already.
func (j *Job) Doubts(ctx context.Context) (_ *Doubts, err error) {
	h, err := checkpoint.ReadHistory(ctx, j.o.Storage)
	if err != nil {
		return nil, err
	}
	a := j.newAttempt()
	a.seen, a.objects = h, checkpoint.NewObjects(j.o.Storage)
	defer func() { err = errors.Join(err, a.closeCommitters()) }()
	if err := a.openCommitters(ctx); err != nil {
		return nil, err
	}
	ev, err := a.evidence(ctx, h.Published())
	if err != nil {
		return nil, err
	}
	out := &Doubts{}
	if out.Holder, err = j.holder(ctx); err != nil {
		return nil, err
	}
	if r := out.Holder; r != nil && r.Attempt == 0 { // it took the lock before it opened one
		for _, e := range h.Attempts() {
			if e.Holder != nil && e.Holder.Host == r.Host && e.Holder.PID == r.PID {
				r.Attempt = e.Attempt
			}
		}
	}
	var d sink.Decision
	if len(ev.Published) > 0 {
		if d, out.Refused = sink.Decide(*ev); out.Refused == nil {
			out.Restore = d.Restore.ID
		}
	}
	return out, a.join(ctx, out, ev, d)
}

// holder returns who holds the job's lock.
func (j *Job) holder(ctx context.Context) (*checkpoint.Holder, error) {
	unlock, held, err := j.o.Storage.Lock(ctx, j.o.Holder, false)
	if err != nil || held != nil || unlock == nil {
		return held, err
	}
	return nil, unlock()
}

// join finds, for everything in doubt, the committable that stands for it, and says
// what is right.
func (a *attempt) join(ctx context.Context, out *Doubts, ev *sink.Evidence, d sink.Decision) error {
	for uid, c := range a.committers {
		found, err := c.Inspect(ctx)
		if err != nil {
			return fmt.Errorf("inspect %s: %w", uid, err)
		}
		listed, err := a.listed(uid, c)
		if err != nil {
			return err
		}
		for _, f := range found {
			x := Doubt{InDoubt: f, Sink: uid}
			if l, ok := listed[f.ID]; ok {
				x.Checkpoint, x.Listed, x.Rows = l.c.Checkpoint, l.by, l.c.Rows
				x.Status = ev.Probed[sink.Name(&l.c)].Status
				x.advise(out, d, &l.c)
			} else {
				x.advise(out, d, nil)
			}
			out.Items = append(out.Items, x)
		}
	}
	slices.SortFunc(out.Items, func(a, b Doubt) int {
		return cmp.Or(cmp.Compare(a.Sink, b.Sink), cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Subtask, b.Subtask), cmp.Compare(a.ID, b.ID))
	})
	return nil
}

// listing is a committable and the newest published checkpoint that lists it.
type listing struct {
	c  checkpoint.Committable
	by stream.CheckpointID
}

// listed returns the committables of a sink by what the outside calls them.
func (a *attempt) listed(uid stream.UID, c sink.Committer) (map[string]listing, error) {
	out := map[string]listing{}
	r, ok := c.(sink.Repairer)
	if !ok {
		return out, nil
	}
	for _, m := range a.history().Published() {
		for _, k := range m.Committables {
			if k.Sink != uid {
				continue
			}
			id, err := r.IDOf(&k)
			if err != nil {
				return nil, err
			}
			out[id] = listing{k, m.ID}
		}
	}
	return out, nil
}

// advise says what is right for x; c is the committable that stands for it, or nil.
func (x *Doubt) advise(all *Doubts, d sink.Decision, c *checkpoint.Committable) {
	restored := c != nil && d.Restore != nil && slices.ContainsFunc(d.Commit, func(k checkpoint.Committable) bool { return sink.Name(&k) == sink.Name(c) })
	switch {
	case all.Holder != nil && (x.Attempt == 0 || x.Attempt == all.Holder.Attempt || c != nil):
		// 0: its name does not tell. What is listed is finished by who runs, whoever prepared it.
		x.Advice, x.Why = AdviseLeave, fmt.Sprintf("attempt %d, which runs as pid %d on %s, owns it", all.Holder.Attempt, all.Holder.PID, all.Holder.Host)
	case all.Refused != nil && c != nil:
		x.Advice, x.Why = AdviseLeave, "no checkpoint can be restored exactly: "+all.Refused.Error()
	case restored && x.Status == sink.Committed:
		x.Advice, x.Why = AdviseHeal, fmt.Sprintf("checkpoint %s lists it and it is committed; what is left is to see that readers do", x.Listed)
	case restored:
		x.Advice, x.Why = AdviseCommit, fmt.Sprintf("checkpoint %s, which a start restores, lists it with %d rows", d.Restore.ID, x.Rows)
	case c != nil && x.Status == sink.Committed:
		x.Advice, x.Why = AdviseHeal, "it is committed and confirmed; what is left is to see that readers do"
	case c != nil:
		x.Advice, x.Why = AdviseAbort, fmt.Sprintf("checkpoint %s listed it, and a start does not restore that one", x.Listed)
	default:
		x.Advice, x.Why = AdviseAbort, "no published checkpoint lists it: its rows are read again"
	}
}
