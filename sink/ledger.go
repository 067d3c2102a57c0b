package sink

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"etl/checkpoint"
	"etl/stream"
)

// Ledger keeps the pending committables of a job: what has been prepared, what a
// permit allows to be committed, and what is resolved. It commits in one lane per
// (sink, subtask), in id order, and a lane never waits for another (I5).
//
// A committable is staged when a task acknowledges it, listed by every metadata
// built while it is unresolved (I6), permitted when a checkpoint that lists it is
// published, and resolved when its commit is verified. It is never dropped on the
// way, whatever becomes of the checkpoint it was prepared for (I7).
type Ledger struct {
	o      LedgerOptions
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex
	lanes  map[stream.TaskID]*lane
	failed error
}

// LedgerOptions says what a ledger works with.
type LedgerOptions struct {
	Clock      stream.Clock
	Listener   *stream.Listener
	Committers map[stream.UID]Committer
	// Resolved is told, from a lane's goroutine, that everything of the lane up to
	// id is resolved; retired as in Writer.Resolved.
	Resolved func(lane stream.TaskID, id stream.CheckpointID, retired bool)
	// Failed is told the error that ends the attempt, at most once.
	Failed func(error)
}

// lane is the queue of one sink subtask.
type lane struct {
	id      stream.TaskID
	entries []entry // in commit order
	// through: everything up to here is resolved; published: the newest
	// checkpoint that has been published.
	through, published stream.CheckpointID
	busy               bool // a goroutine is committing
}

type entry struct {
	c      checkpoint.Committable
	permit checkpoint.Permit
	ready  bool // permitted
	old    bool // on behalf of an earlier attempt
}

// NewLedger returns an empty ledger for the given lanes.
func NewLedger(ctx context.Context, o LedgerOptions, lanes []stream.TaskID) *Ledger {
	l := &Ledger{o: o, lanes: map[stream.TaskID]*lane{}}
	l.ctx, l.cancel = context.WithCancel(ctx)
	for _, t := range lanes {
		l.lane(t)
	}
	return l
}

func (l *Ledger) lane(t stream.TaskID) *lane {
	n := l.lanes[t]
	if n == nil {
		n = &lane{id: t}
		l.lanes[t] = n
	}
	return n
}

// Staged records what a task has prepared for a checkpoint. It is called for
// every acknowledgement, late ones of aborted checkpoints included (I6).
// replaces are earlier checkpoints of the lane whose rows were prepared again.
func (l *Ledger) Staged(t stream.TaskID, cs []checkpoint.Committable, replaces []stream.CheckpointID) {
	for _, id := range replaces {
		l.ended(t, id)
	}
	for i := range cs {
		l.o.Listener.OnTransaction(stream.TransactionEvent{Task: t, ID: cs[i].Checkpoint, State: stream.TransactionPrepared, Begun: l.o.Clock.Now(), Logged: cs[i].Logged()})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.lane(t)
	n.entries = slices.DeleteFunc(n.entries, func(e entry) bool { return slices.Contains(replaces, e.c.Checkpoint) })
	for _, c := range cs {
		n.entries = append(n.entries, entry{c: c})
	}
	slices.SortFunc(n.entries, func(a, b entry) int { return checkpoint.CompareCommittables(a.c, b.c) })
}

// List returns what metadata id must say: everything staged up to it that is not
// resolved now (I6), and, by lane, up to where everything is resolved (I11).
func (l *Ledger) List(id stream.CheckpointID) (unresolved []checkpoint.Committable, confirmed map[stream.TaskID]stream.CheckpointID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	confirmed = map[stream.TaskID]stream.CheckpointID{}
	for t, n := range l.lanes {
		for _, e := range n.entries {
			if e.c.Checkpoint <= id {
				unresolved = append(unresolved, e.c)
			}
		}
		if n.through != stream.NoCheckpoint {
			confirmed[t] = n.through
		}
	}
	slices.SortFunc(unresolved, checkpoint.CompareCommittables)
	return unresolved, confirmed
}

// Settled reports whether nothing up to id is unresolved in any lane.
func (l *Ledger) Settled(id stream.CheckpointID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.lanes {
		if len(n.entries) > 0 && n.entries[0].c.Checkpoint <= id {
			return false
		}
	}
	return true
}

// Waiting returns the lanes that hold back checkpoint id.
func (l *Ledger) Waiting(id stream.CheckpointID) (lanes []stream.TaskID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for t, n := range l.lanes {
		if len(n.entries) > 0 && n.entries[0].c.Checkpoint <= id {
			lanes = append(lanes, t)
		}
	}
	return lanes
}

// Laggard names a lane that holds back checkpoint id, for history and messages.
func (l *Ledger) Laggard(id stream.CheckpointID) (stream.TaskID, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for t, n := range l.lanes {
		if len(n.entries) > 0 && n.entries[0].c.Checkpoint <= id {
			return t, true
		}
	}
	return stream.TaskID{}, false
}

// Published permits what a published checkpoint lists, and starts the lanes
// (B10). retired are the resolutions that the checkpoint's metadata carries: what
// they cover will never be asked about again.
func (l *Ledger) Published(p checkpoint.Permit, retired map[stream.TaskID]stream.CheckpointID) {
	l.mu.Lock()
	var empty []stream.TaskID
	for t, n := range l.lanes {
		n.published = max(n.published, p.ID())
		for i := range n.entries {
			if e := &n.entries[i]; p.Covers(&e.c) {
				e.permit, e.ready, e.c.Sources = p, true, p.Sources(&e.c)
			}
		}
		if n.advance(stream.NoCheckpoint) {
			empty = append(empty, t)
		}
		l.start(n)
	}
	l.mu.Unlock()
	for t, id := range retired {
		l.o.Resolved(t, id, true)
	}
	for _, t := range empty {
		l.o.Resolved(t, p.ID(), false)
	}
}

// Restore fills the ledger with what a restored checkpoint lists and is not yet
// resolved, permitted at once (V5). confirmed are the resolutions known.
func (l *Ledger) Restore(p checkpoint.Permit, cs []checkpoint.Committable, confirmed map[stream.TaskID]stream.CheckpointID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for t, id := range confirmed {
		l.lane(t).through = id
	}
	for _, c := range cs {
		n := l.lane(c.Lane())
		n.entries = append(n.entries, entry{c: c, permit: p, ready: true, old: true})
	}
	for _, n := range l.lanes {
		slices.SortFunc(n.entries, func(a, b entry) int { return checkpoint.CompareCommittables(a.c, b.c) })
		n.published = max(n.published, p.ID())
		n.advance(stream.NoCheckpoint)
		l.start(n)
	}
}

// advance moves through as far as nothing before it is left, done being what was
// resolved last, and reports whether it moved.
func (n *lane) advance(done stream.CheckpointID) bool {
	to := max(n.published, done)
	if len(n.entries) > 0 && n.entries[0].c.Checkpoint <= to {
		to = stream.NoCheckpoint
		if done < n.entries[0].c.Checkpoint {
			to = done
		}
	}
	if to <= n.through {
		return false
	}
	n.through = to
	return true
}

// start begins the lane's goroutine if there is work and none is running.
func (l *Ledger) start(n *lane) {
	if n.busy || l.failed != nil || len(n.entries) == 0 || !n.entries[0].ready {
		return
	}
	n.busy = true
	l.work.Add(1)
	go l.run(n)
}

// run is step B10: it commits the lane's permitted entries, one after the other.
func (l *Ledger) run(n *lane) {
	defer l.work.Done()
	for {
		l.mu.Lock()
		if l.failed != nil || l.ctx.Err() != nil || len(n.entries) == 0 || !n.entries[0].ready {
			n.busy = false
			l.mu.Unlock()
			return
		}
		e := n.entries[0]
		l.mu.Unlock()
		if err := l.commit(e); err != nil {
			l.fail(err)
			continue
		}
		l.mu.Lock()
		n.entries = n.entries[1:]
		moved := n.advance(e.c.Checkpoint)
		id := n.through
		last := len(n.entries) == 0 || n.entries[0].c.Checkpoint != e.c.Checkpoint
		l.mu.Unlock()
		if last {
			l.ended(n.id, e.c.Checkpoint)
		}
		if moved {
			l.o.Resolved(n.id, id, false)
		}
	}
}

// ended tells the listener that a transaction is no more.
func (l *Ledger) ended(t stream.TaskID, id stream.CheckpointID) {
	l.o.Listener.OnTransaction(stream.TransactionEvent{Task: t, ID: id, State: stream.TransactionEnded})
}

// commit repeats the commit of one committable until its outcome is known.
func (l *Ledger) commit(e entry) error {
	c, begin := e.c, l.o.Clock.Now()
	committer := l.o.Committers[c.Sink]
	if committer == nil {
		return fmt.Errorf("no committer for sink %s", c.Sink)
	}
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		r, err := committer.Commit(l.ctx, e.permit, c)
		if err != nil {
			return fmt.Errorf("commit %s of %s: %w", c.Checkpoint, c.Lane(), err)
		}
		l.o.Listener.OnCommit(stream.CommitEvent{Task: c.Lane(), ID: c.Checkpoint, Outcome: r.Outcome.String(), Recovery: e.old,
			Healed: r.Healed, ByMarker: r.ByMarker, Rows: c.Rows, Duration: l.o.Clock.Now().Sub(begin)})
		switch r.Outcome {
		case Done, Already:
			l.o.Listener.Did("B10", c.Lane(), c.Checkpoint)
			return nil
		case Transient:
			if err := l.o.Clock.Sleep(l.ctx, wait); err != nil {
				return err
			}
		default:
			return OutcomeError(c, r)
		}
	}
}

// fail keeps the first error and tells it.
func (l *Ledger) fail(err error) {
	l.mu.Lock()
	first := l.failed == nil
	if first {
		l.failed = err
	}
	l.mu.Unlock()
	if first && l.ctx.Err() == nil {
		l.o.Failed(err)
	}
}

// Close stops the lanes and waits for them. Commits that were under way may or
// may not have happened: the log lists them.
func (l *Ledger) Close() {
	l.cancel()
	l.work.Wait()
}

// OutcomeError returns the error of a commit that did not succeed (I13).
func OutcomeError(c checkpoint.Committable, r Result) error {
	subject := fmt.Sprintf("checkpoint %s of %s", c.Checkpoint, c.Lane())
	switch r.Outcome {
	case NotVisible:
		return stream.Errorf(stream.Environment, "sink.not_visible", "commit", subject,
			"committed, but readers cannot see it, and this job may not repair it: %s", r.Detail).
			WithFix("give the job's principal the right to alter the cluster (WriteTxnMarkers), and start it again")
	case Lost:
		return stream.Errorf(stream.DataLoss, "sink.lost", "commit", subject,
			"%d rows are neither committed nor committable: %s; they came from %v", c.Rows, r.Detail, c.Sources)
	default:
		return stream.Errorf(stream.DataLoss, "sink.undecided", "commit", subject,
			"whether %d rows were committed can no longer be told: %s; they came from %v", c.Rows, r.Detail, c.Sources).
			WithFix("compare the sink with the source, then start with --from an older checkpoint and --accept-duplicates, or accept the loss")
	}
}
