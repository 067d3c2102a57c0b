package pipeline

import (
	"context"
	"errors"
	"fmt"

	"etl/checkpoint"
	"etl/sink"
	"etl/stream"
)

// Settlement is what Settle is asked to do.
type Settlement struct {
	// Commit commits, verifies and heals what the restored checkpoint lists, and
	// confirms it (V5). What can wait (sink.Features.Deferred) is left to the next start.
	Commit bool
	// Abort ends what no checkpoint that counts lists (V6).
	Abort bool
	// Force ends these as End says, whatever the checkpoints say.
	Force []Forced
}

// Forced is one thing that is ended against, or without, the advice.
type Forced struct {
	Sink   stream.UID
	ID     string
	Commit bool
}

// Settle takes the job over as a start does, finishes what is in doubt, and ends: the
// recovery journey without the journey. The next start finds nothing left to do. It
// refuses to begin while another process holds the job, unless Options.TakeOver.
func (j *Job) Settle(ctx context.Context, s Settlement) (err error) {
	unlock, err := j.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	a := j.newAttempt()
	defer func() { err = errors.Join(a.blame(ctx, err), a.close()) }()
	if err := a.begin(ctx); err != nil {
		return err
	}
	if len(s.Force) > 0 {
		return a.force(ctx, s.Force)
	}
	candidates, err := a.candidates(ctx)
	if err != nil {
		return err
	}
	ev, err := a.evidence(ctx, candidates)
	if err != nil {
		return err
	}
	if err := a.decide(ctx, ev); err != nil {
		return err
	}
	if s.Commit {
		if err := a.resolve(ctx, ev); err != nil {
			return err
		}
		if a.open = nil; a.restored != nil { // what was left to the lanes is not to be aborted
			a.open, _ = a.ledger.List(a.restored.ID)
		}
	}
	if s.Abort {
		return a.fenceExcept(ctx, a.open)
	}
	return nil
}

// force ends single things by name.
func (a *attempt) force(ctx context.Context, all []Forced) error {
	for _, f := range all {
		r, ok := a.committers[f.Sink].(sink.Repairer)
		if !ok {
			return stream.Errorf(stream.BadConfig, "txn.no_force", "end", f.ID, "sink %s cannot end single transactions by name", f.Sink)
		}
		if err := r.End(ctx, f.ID, f.Commit); err != nil {
			return fmt.Errorf("end %s of %s: %w", f.ID, f.Sink, err)
		}
	}
	return nil
}

// Find lists what is in doubt in the sinks' outsides under names that begin with
// prefix, of any job, read-only.
func (j *Job) Find(ctx context.Context, prefix string) (out []Doubt, err error) {
	a := j.newAttempt()
	if a.seen, err = checkpoint.ReadHistory(ctx, j.o.Storage); err != nil {
		return nil, err
	}
	a.objects = checkpoint.NewObjects(j.o.Storage)
	defer func() { err = errors.Join(err, a.closeCommitters()) }()
	if err := a.openCommitters(ctx); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for uid, c := range a.committers {
		r, ok := c.(sink.Repairer)
		if !ok {
			continue
		}
		found, err := r.Find(ctx, prefix)
		if err != nil {
			return nil, fmt.Errorf("look for %s* at %s: %w", prefix, uid, err)
		}
		for _, f := range found {
			if known[f.ID] { // two sinks on one cluster see the same
				continue
			}
			known[f.ID] = true
			out = append(out, Doubt{InDoubt: f, Sink: uid, Advice: AdviseLeave,
				Why: "found by its name: look at it with the pipeline file of its job; if there is none any more, abort it with --force"})
		}
	}
	return out, nil
}
