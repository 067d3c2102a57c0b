package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"etl/checkpoint"
	"etl/internal/fault"
	"etl/sink"
	"etl/source"
	"etl/state"
	"etl/stream"
)

// errFinished is the cause with which an attempt's tasks end when the job is done.
var errFinished = errors.New("the job is finished")

// errCancelled is the cause with which they end when the job was cancelled.
var errCancelled = errors.New("the job was cancelled")

// attempt is one start of a job: everything from opening the log to joining the
// last goroutine. Its fields are set by the goroutine that runs it, before the
// tasks start.
type attempt struct {
	graph  *Graph
	layout *layout
	o      Options
	job    *Job

	log         *checkpoint.Attempt // nil for who only looks
	seen        *checkpoint.History // what who only looks has seen
	objects     state.Objects
	committers  map[stream.UID]sink.Committer
	enumerators map[stream.UID]source.Enumerator
	ledger      *sink.Ledger
	restored    *checkpoint.Metadata // nil for a fresh job until checkpoint 0
	open        []checkpoint.Committable
	splits      map[stream.TaskID][]stream.Split
	backend     state.Backend
	uploader    *checkpoint.Uploader
	retention   *checkpoint.Retention
	tasks       []*task
	runner      *checkpoint.Runner

	errs     chan error    // failures from anywhere; only the first counts
	resolved chan struct{} // the ledger has moved
	mu       sync.Mutex
	writers  map[stream.TaskID]sink.Writer // once open
}

func (j *Job) newAttempt() *attempt {
	return &attempt{graph: j.graph, layout: j.layout, o: j.o, job: j, committers: map[stream.UID]sink.Committer{},
		enumerators: map[stream.UID]source.Enumerator{}, errs: make(chan error, 1), resolved: make(chan struct{}, 1),
		writers: map[stream.TaskID]sink.Writer{}, splits: map[stream.TaskID][]stream.Split{}}
}

// history is the log as the attempt knows it.
func (a *attempt) history() *checkpoint.History {
	if a.log == nil {
		return a.seen
	}
	return a.log.History()
}

// number is the attempt's number; that of the next one for who only looks.
func (a *attempt) number() stream.Attempt {
	if a.log == nil {
		return a.seen.Last() + 1
	}
	return a.log.Number()
}

// runAttempt opens an attempt, restores, runs until the job is finished or has to
// end, and joins everything (I16). nil means finished.
func (j *Job) runAttempt(ctx context.Context) (err error) {
	a := j.newAttempt()
	whole := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer func() {
		cancel(err)
		err = errors.Join(a.blame(whole, err), a.close())
	}()
	if err := a.begin(ctx); err != nil {
		return err
	}
	if err := a.recover(ctx); err != nil {
		return err
	}
	if err := a.load(ctx); err != nil {
		return err
	}
	if err := a.build(ctx); err != nil {
		return err
	}
	return a.run(ctx, cancel)
}

// blame returns why the attempt really ended. A process that was taken over meets
// fenced producers, aborted transactions and markers of its successor, wherever it
// stands: none of that is a loss, and no reason to start again.
func (a *attempt) blame(ctx context.Context, err error) error {
	if err == nil || a.log == nil || ctx.Err() != nil || stream.ClassOf(err) == stream.Fenced {
		return err
	}
	if fenced := a.log.Superseded(ctx); fenced != nil {
		return fmt.Errorf("%w (it was noticed by: %v)", fenced, err)
	}
	return err
}

// overtaken refuses another attempt of this process after that of another one which
// came later: only a person decides to take a job over (I4).
func (a *attempt) overtaken(h *checkpoint.History) error {
	j := a.job
	if !j.looked {
		j.looked = true
		for _, e := range h.Attempts() {
			j.followed = e.Attempt
		}
		return nil
	}
	me := a.o.Holder
	last := max(j.followed, j.Status().Attempt)
	if e := h.Successor(last, func(h checkpoint.Holder) bool { return h.Host == me.Host && h.PID == me.PID }); e != nil {
		return checkpoint.TakenOver(last, e)
	}
	return nil
}

// begin is V1 and V2: the graph is compared with what is stored before anything
// is written, then the job is taken over.
func (a *attempt) begin(ctx context.Context) error {
	a.job.phase("restoring", nil)
	h, err := checkpoint.ReadHistory(ctx, a.o.Storage)
	if err != nil {
		return err
	}
	if m := h.Newest(); m != nil && !a.o.Restore.Empty {
		if from := h.Find(a.o.Restore.From); from != nil {
			m = from
		}
		if err := a.graph.compatible(m, a.o.Restore.AllowDropped); err != nil {
			return err
		}
	}
	a.did("V1")
	if a.log, err = checkpoint.OpenAttempt(ctx, a.o.Storage, checkpoint.AttemptOptions{World: a.o.World, Holder: a.o.Holder, Check: a.overtaken}); err != nil {
		return err
	}
	a.job.opened(a.log)
	a.did("V2")
	a.objects = checkpoint.NewObjects(a.o.Storage)
	if err := a.openCommitters(ctx); err != nil {
		return err
	}
	a.ledger = sink.NewLedger(ctx, sink.LedgerOptions{Clock: a.o.World.Clock, Listener: a.o.Listener, Committers: a.committers,
		Resolved: a.laneResolved, Failed: a.fail}, a.lanes())
	return nil
}

// openCommitters opens those that the mode needs: under at_least_once only of sinks that
// never are more, and commit all the same.
func (a *attempt) openCommitters(ctx context.Context) error {
	for _, n := range a.graph.Nodes {
		if n.Sink == nil || n.Sink.NewCommitter == nil {
			continue
		}
		if m := a.o.Policy.Mode; m != checkpoint.ExactlyOnce && (m != checkpoint.AtLeastOnce || !n.Sink.Features.Repeats) {
			continue
		}
		c := n.Sink.NewCommitter()
		if c == nil {
			continue
		}
		h, me := a.history(), a.number()
		env := sink.CommitEnv{World: a.o.World, Job: a.graph.Name, Lineage: h.Lineage(), Attempt: me, UID: n.UID,
			Listener: a.o.Listener, Objects: a.objects, Owners: h.Owners(me), Fresh: h.Newest() == nil}
		if err := c.Open(ctx, env); err != nil {
			return errors.Join(fmt.Errorf("open committer of %s: %w", n.UID, err), c.Close()) // Open may have got half way
		}
		a.committers[n.UID] = c
	}
	return nil
}

// lanes returns every sink subtask of the graph that commits.
func (a *attempt) lanes() (out []stream.TaskID) {
	for uid := range a.committers {
		for i := range a.graph.parallelism(a.graph.Node(uid)) {
			out = append(out, stream.TaskID{UID: uid, Subtask: i})
		}
	}
	return out
}

// fail ends the attempt with its first error.
func (a *attempt) fail(err error) {
	select {
	case a.errs <- err:
	default:
	}
}

// laneResolved passes on what the ledger has resolved.
func (a *attempt) laneResolved(lane stream.TaskID, id stream.CheckpointID, retired bool) {
	a.mu.Lock()
	w, r := a.writers[lane], a.runner
	a.mu.Unlock()
	if w != nil {
		w.Resolved(id, retired)
	}
	if r != nil {
		r.Resolved()
	}
	a.moved()
}

// moved wakes who waits in settled.
func (a *attempt) moved() {
	select {
	case a.resolved <- struct{}{}:
	default:
	}
}

// load is V7 and V8: state is loaded, then the markers are read once more.
func (a *attempt) load(ctx context.Context) error {
	if a.o.NewBackend != nil {
		b, err := a.o.NewBackend(BackendEnv{World: a.o.World, Job: a.graph.Name, Lineage: a.log.Lineage(), Attempt: a.log.Number(),
			MaxParallelism: a.graph.maxParallelism(), Objects: a.objects})
		if err != nil {
			return err
		}
		a.backend = b
		if err := b.Restore(ctx, a.keyed()); err != nil {
			return fmt.Errorf("load state: %w", err)
		}
	}
	a.did("V7")
	if a.restored != nil {
		if err := a.unmoved(ctx, a.restored.ID); err != nil {
			return err
		}
	}
	a.did("V8")
	// A task may be as many checkpoints ahead as may be under way, and its frames share
	// objects with those of the slowest.
	a.retention = checkpoint.NewRetention(a.log, a.o.Storage, max(a.o.Policy.Retain, a.o.Policy.MaxConcurrent))
	if err := a.retention.Sweep(ctx); err != nil {
		a.o.World.Log.Warn("what earlier attempts left in storage could not be deleted", "error", err)
	}
	return a.openSources(ctx)
}

// keyed collects the handles of keyed state in the restored checkpoint.
func (a *attempt) keyed() state.Restored {
	r := state.Restored{Objects: a.objects, Keyed: map[stream.UID][]state.Handle{}}
	if a.restored == nil || a.o.Restore.Empty {
		return r
	}
	r.ID = a.restored.ID
	for i := range a.restored.Tasks {
		t := &a.restored.Tasks[i]
		n := a.graph.Node(t.UID)
		if n == nil || n.Operator == nil || len(n.Operator.Keyed) == 0 {
			continue
		}
		r.Keyed[t.UID] = append(r.Keyed[t.UID], t.Handles...)
	}
	return r
}

// openSources finds the splits. For a fresh job it publishes checkpoint 0, which
// fixes where every partition begins, before anything is read (I14).
func (a *attempt) openSources(ctx context.Context) error {
	fresh := a.restored == nil || a.o.Restore.Empty
	known := map[stream.UID][]stream.Split{}
	if !fresh {
		known = a.restored.Splits()
	}
	for _, n := range a.graph.Nodes {
		if n.Source == nil {
			continue
		}
		e := n.Source.NewEnumerator()
		a.enumerators[n.UID] = e
		if err := e.Open(ctx, a.env(n, 0, nil)); err != nil {
			return fmt.Errorf("open source %s: %w", n.UID, err)
		}
		add, err := e.Discover(ctx, known[n.UID])
		if err != nil {
			return fmt.Errorf("find the splits of %s: %w", n.UID, err)
		}
		for _, s := range append(slices.Clone(known[n.UID]), add...) {
			t := stream.TaskID{UID: n.UID, Subtask: splitSubtask(&s, a.graph.parallelism(n))}
			a.splits[t] = append(a.splits[t], s)
		}
	}
	if !fresh || a.o.Policy.Mode == checkpoint.None {
		return nil
	}
	return a.publishInitial(ctx)
}

// splitSubtask says which subtask reads a split: the partitions of a topic go
// round the subtasks, topics begin at different ones.
func splitSubtask(s *stream.Split, parallelism int) int {
	return int((stream.Hash([]byte(s.Topic)) + uint64(s.Partition)) % uint64(parallelism))
}

// template is the part of the metadata that all checkpoints of the attempt share.
func (a *attempt) template() checkpoint.Metadata {
	return checkpoint.Metadata{Version: checkpoint.MetadataVersion, Job: a.graph.Name, Lineage: a.log.Lineage(), Mode: string(a.o.Policy.Mode),
		MaxParallelism: a.graph.maxParallelism(), ConfigHash: a.o.ConfigHash, Operators: a.graph.operators()}
}

// publishInitial publishes checkpoint 0 and makes it the one the job begins from.
func (a *attempt) publishInitial(ctx context.Context) error {
	m := a.template()
	m.ID, m.Kind, m.TriggeredAt = stream.NewCheckpointID(a.log.Number(), 0), "initial", a.o.World.Clock.Now().UTC()
	if a.restored != nil {
		m.Previous = a.restored.ID
		// What was left to the lanes is listed until it is resolved (I6), also by a start
		// that begins empty.
		cs, confirmed := a.ledger.List(a.restored.ID)
		m.Committables, m.ConfirmedThrough = cs, checkpoint.Lanes(confirmed)
	}
	for _, n := range a.graph.Nodes {
		for i := range a.graph.parallelism(n) {
			t := stream.TaskID{UID: n.UID, Subtask: i}
			if s := a.splits[t]; n.Source != nil && len(s) > 0 {
				m.Tasks = append(m.Tasks, checkpoint.TaskState{TaskID: t, Splits: slices.Clone(s)})
			}
		}
	}
	if _, err := a.log.Publish(ctx, &m); err != nil {
		return err
	}
	a.restored = &m
	fault.Point("recover.initial_published")
	return nil
}
