package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"etl/checkpoint"
	"etl/sink"
	"etl/source"
	"etl/stream"
)

// attemptControl is the attempt as the runner sees its tasks.
type attemptControl attempt

// Inject tells every source task to emit a barrier.
func (a *attemptControl) Inject(b stream.Barrier) {
	for _, t := range a.tasks {
		if t.reader != nil {
			t.ctl.tell(inject{b})
		}
	}
}

// Aborted tells every task that a checkpoint can never be published.
func (a *attemptControl) Aborted(id stream.CheckpointID) {
	for _, t := range a.tasks {
		t.ctl.tell(aborted{id})
	}
}

// Completed tells writers and the state backend that a checkpoint is published.
func (a *attemptControl) Completed(id stream.CheckpointID) {
	if a.backend != nil {
		a.backend.Completed(id)
	}
	for _, w := range a.writers {
		w.Published(id)
	}
}

// run is V9 and everything after: the tasks run until the job is finished or
// something fails.
func (a *attempt) run(ctx context.Context, cancel context.CancelCauseFunc) error {
	a.did("V9")
	a.tellState()
	a.tellRestored()
	a.job.started(a)
	var work, persisting sync.WaitGroup
	for _, t := range a.tasks {
		persisting.Go(func() { t.persist.run(ctx) })
		work.Go(func() {
			if err := t.run(ctx); ctx.Err() == nil {
				a.fail(err)
			}
		})
	}
	work.Go(func() { a.discover(ctx) })
	finished := make(chan error, 1)
	work.Go(func() { finished <- a.runner.Run(ctx) })
	err := a.wait(ctx, finished)
	if err == nil {
		cancel(errFinished)
	} else {
		cancel(err)
	}
	work.Wait()
	for _, t := range a.tasks {
		close(t.persist.work)
	}
	persisting.Wait()
	return err
}

// tellState writes what it took to load keyed state, if there was any: how long a
// restart takes depends on it.
func (a *attempt) tellState() {
	if a.backend == nil {
		return
	}
	s := a.backend.Stats()
	if s.SegmentsReplayed+s.BasesReused+s.BasesDiscarded == 0 {
		return
	}
	a.o.World.Log.Info("keyed state loaded", "segments", s.SegmentsReplayed, "entries", s.EntriesReplayed,
		"bases_reused", s.BasesReused, "bases_discarded", s.BasesDiscarded)
}

// tellRestored tells the listener where the attempt goes on.
func (a *attempt) tellRestored() {
	if a.restored != nil {
		a.o.Listener.OnCheckpoint(stream.CheckpointEvent{ID: a.restored.ID, Phase: "restored", At: a.o.World.Clock.Now(), Splits: a.restored.Splits()})
	}
}

// wait returns the first thing that ends the attempt.
func (a *attempt) wait(ctx context.Context, finished <-chan error) error {
	tick := a.o.World.Clock.Ticker(backendCheckEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-a.errs:
			return err
		case err := <-finished:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C():
			if a.backend != nil {
				if err := a.backend.Err(); err != nil {
					return fmt.Errorf("state backend: %w", err)
				}
			}
		}
	}
}

// discover looks for new splits and hands them to their readers.
func (a *attempt) discover(ctx context.Context) {
	known := map[stream.UID][]stream.Split{}
	for t, s := range a.splits {
		known[t.UID] = append(known[t.UID], s...)
	}
	for a.o.World.Clock.Sleep(ctx, a.o.DiscoverEvery) == nil {
		for uid, e := range a.enumerators {
			if n := a.graph.Node(uid); n.Source.Bounded {
				continue
			}
			if err := a.discoverOne(ctx, uid, e, known); err != nil {
				a.fail(err)
				return
			}
		}
	}
}

func (a *attempt) discoverOne(ctx context.Context, uid stream.UID, e source.Enumerator, known map[stream.UID][]stream.Split) error {
	add, err := e.Discover(ctx, known[uid])
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil && stream.ClassOf(err) == stream.Retry:
		a.o.World.Log.Warn("new splits could not be looked for", "component", string(uid), "error", err)
		return nil
	case err != nil:
		return fmt.Errorf("find the splits of %s: %w", uid, err)
	}
	known[uid] = append(known[uid], add...)
	byTask := map[stream.TaskID][]stream.Split{}
	for i := range add {
		t := stream.TaskID{UID: uid, Subtask: splitSubtask(&add[i], a.graph.parallelism(a.graph.Node(uid)))}
		byTask[t] = append(byTask[t], add[i])
	}
	for _, t := range a.tasks {
		if s := byTask[t.id]; len(s) > 0 {
			t.ctl.tell(assign{s})
		}
	}
	return nil
}

// report tells the consumer groups how far the job has come: for lag tools only.
func (a *attempt) report(ctx context.Context, p checkpoint.Permit, m *checkpoint.Metadata) {
	for uid, splits := range m.Splits() {
		e := a.enumerators[uid]
		if e == nil {
			continue
		}
		err := e.Report(ctx, p, splits)
		if ctx.Err() != nil {
			return
		}
		a.o.Listener.OnReport(stream.ReportEvent{Source: uid, ID: m.ID, Err: err})
		if err != nil {
			a.o.World.Log.Warn("offsets could not be reported to the consumer group", "component", string(uid), "error", err)
		}
	}
}

// close ends everything an attempt has opened, in the reverse order. It never
// ends a transaction, unless the job was cancelled.
func (a *attempt) close() error {
	if a.ledger != nil {
		a.ledger.Close()
	}
	var errs []error
	add := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", what, err))
		}
	}
	for _, t := range a.tasks {
		for _, e := range t.held {
			if b, ok := e.el.(*stream.Batch); ok {
				b.Release()
			}
		}
		if t.in != nil {
			t.in.drain()
		}
		for _, l := range t.links {
			add(t.id.String(), l.close())
		}
		if t.reader != nil {
			add(t.id.String(), t.reader.Close())
		}
	}
	if a.uploader != nil {
		a.uploader.Close()
	}
	if a.backend != nil {
		add("state backend", a.backend.Close())
	}
	for uid, e := range a.enumerators {
		add(string(uid), e.Close())
	}
	errs = append(errs, a.endOwn(), a.closeCommitters())
	return errors.Join(errs...)
}

func (a *attempt) closeCommitters() error {
	var errs []error
	for uid, c := range a.committers {
		if err := c.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", uid, err))
		}
	}
	return errors.Join(errs...)
}

// endOwn ends the open transactions of an attempt that was cancelled: it commits
// what is published, and aborts the rest (I17). What could not be committed in time
// stays open, for the next start.
func (a *attempt) endOwn() error {
	if !a.job.cancelled.Load() || a.log == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), endOwnTimeout)
	defer cancel()
	if err := a.commitOwn(ctx); err != nil {
		a.o.World.Log.Warn("not everything that is published could be committed; the next start does it", "error", err)
	}
	var keep []checkpoint.Committable
	if m := a.log.History().Newest(); m != nil {
		keep = a.log.History().Unresolved(m)
	}
	if err := a.fenceOwn(ctx, keep); err != nil {
		return err
	}
	if a.o.DeleteOnCancel && len(keep) == 0 && a.retention != nil {
		return errors.Join(a.log.Close(ctx), a.retention.Purge(ctx))
	}
	return nil
}

// fenceOwn ends what is open of this attempt, but for keep, at all sinks at once: one
// that does not answer takes the others' time no more than their turn.
func (a *attempt) fenceOwn(ctx context.Context, keep []checkpoint.Committable) error {
	var work sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for uid, c := range a.committers {
		work.Go(func() {
			err := c.Fence(ctx, []stream.Attempt{a.log.Number()}, of(uid, keep))
			if err == nil {
				return
			}
			// It is no error to have cancelled a job: nobody else would tell.
			a.o.World.Log.Warn("open transactions could not be ended; the next start does it", "sink", string(uid), "error", err)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, fmt.Errorf("end the open transactions of %s: %w", uid, err))
		})
	}
	work.Wait()
	return errors.Join(errs...)
}

// commitOwn commits what this attempt has published. Its rows are decided; left
// open, they would hold up readers until somebody starts the job again, and be lost
// when nobody does.
func (a *attempt) commitOwn(ctx context.Context) error {
	m := a.log.History().Newest()
	if m == nil || m.ID.Attempt() != a.log.Number() || len(a.log.History().Unresolved(m)) == 0 {
		return nil
	}
	permit, err := a.log.Restored(m.ID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, commitOwnTimeout)
	defer cancel()
	select {
	case <-a.errs: // of the end
	default:
	}
	a.ledger = sink.NewLedger(ctx, sink.LedgerOptions{Clock: a.o.World.Clock, Listener: a.o.Listener, Committers: a.committers,
		Resolved: func(stream.TaskID, stream.CheckpointID, bool) { a.moved() }, Failed: a.fail}, nil)
	defer a.ledger.Close()
	lanes := map[stream.TaskID]stream.CheckpointID{}
	for _, c := range a.log.History().Unresolved(m) {
		a.ledger.Staged(c.Lane(), []checkpoint.Committable{c}, nil)
		lanes[c.Lane()] = m.ID
	}
	a.ledger.Published(permit, nil)
	if err := a.settled(ctx, m.ID); err != nil {
		return err
	}
	waiting := a.ledger.Waiting(m.ID)
	for _, w := range waiting {
		delete(lanes, w)
	}
	if err := a.log.Confirm(ctx, lanes); err != nil || len(waiting) > 0 {
		return err
	}
	a.job.update(func(s *Status) { s.Confirmed = m.ID })
	return nil
}

func (l *link) close() error {
	l.release()
	var errs []error
	if l.op != nil {
		errs = append(errs, l.op.Close())
	}
	if l.writer != nil {
		errs = append(errs, l.writer.Close())
	}
	if l.store != nil {
		errs = append(errs, l.store.Close())
	}
	return errors.Join(errs...)
}
