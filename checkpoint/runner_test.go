package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"etl/checkpoint"
	"etl/checkpoint/memstore"
	"etl/internal/fault"
	"etl/sink"
	"etl/state"
	"etl/stream"
)

// outTask is the only task of a running job here: source and sink in one.
var outTask = stream.TaskID{UID: "out", Subtask: 0}

// running is a runner at work with a real log, ledger and retention. It is also the
// runner's view of the tasks, of which there is one.
type running struct {
	t      *testing.T
	st     *memstore.Store
	log    *checkpoint.Attempt
	ledger *sink.Ledger
	r      *checkpoint.Runner
	ack    func(id stream.CheckpointID) checkpoint.Ack
	done   chan error
}

// startRunner begins to take a checkpoint every 10 ms (virtual) in a job with the given
// lanes; on is told what becomes of them.
func startRunner(ctx context.Context, t *testing.T, lanes []stream.TaskID, c sink.Committer, on func(stream.CheckpointEvent)) *running {
	t.Helper()
	world := stream.SystemWorld(slog.New(slog.DiscardHandler))
	j := &running{t: t, st: memstore.New(t.Name()), done: make(chan error, 1)}
	j.ack = func(id stream.CheckpointID) checkpoint.Ack { return checkpoint.Ack{Task: outTask, ID: id} }
	var err error
	if j.log, err = checkpoint.OpenAttempt(ctx, j.st, checkpoint.AttemptOptions{World: world}); err != nil {
		t.Fatal(err)
	}
	listener := &stream.Listener{Checkpoint: on}
	j.ledger = sink.NewLedger(ctx, sink.LedgerOptions{Clock: world.Clock, Listener: listener, Committers: map[stream.UID]sink.Committer{"out": c},
		Resolved: func(stream.TaskID, stream.CheckpointID, bool) { j.r.Resolved() },
		Failed:   func(err error) { t.Error(err) }}, lanes)
	j.r = checkpoint.NewRunner(checkpoint.RunnerOptions{
		Policy:  checkpoint.Policy{Interval: 10 * time.Millisecond, MinPause: checkpoint.NoPause}.WithDefaults(),
		Attempt: j.log, Storage: j.st, World: world, Listener: listener, Control: j, Ledger: j.ledger,
		Tasks: []stream.TaskID{outTask}, Sources: []stream.TaskID{outTask},
		Template: checkpoint.Metadata{Version: checkpoint.MetadataVersion}, Retain: checkpoint.NewRetention(j.log, j.st, 3).Run})
	return j
}

func (j *running) run(ctx context.Context) { go func() { j.done <- j.r.Run(ctx) }() }

// end waits for the end of the run, which has to come at once.
func (j *running) end() error {
	j.t.Helper()
	select {
	case err := <-j.done:
		j.ledger.Close()
		return err
	case <-time.After(time.Minute): // virtual
		j.t.Fatal("the runner does not end")
		return nil
	}
}

func (j *running) Inject(b stream.Barrier)       { go func() { j.r.Acknowledge(j.ack(b.ID)) }() }
func (j *running) Aborted(stream.CheckpointID)   {}
func (j *running) Completed(stream.CheckpointID) {}
func (j *running) Culprit([]stream.TaskID) (who stream.TaskID, doing string, ok bool) {
	return who, "", false
}

// TestRunnerWithManyLanes: with each publication the ledger tells the loop, on the loop,
// what became of every lane. However many there are, the loop does not wait for itself,
// and ends when it is told to.
func TestRunnerWithManyLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errEnough := errors.New("enough checkpoints")
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		var lanes []stream.TaskID
		for i := range 100 {
			lanes = append(lanes, stream.TaskID{UID: "out", Subtask: i})
		}
		confirmed := 0
		j := startRunner(ctx, t, lanes, nil, func(e stream.CheckpointEvent) {
			if e.Phase == "confirmed" {
				if confirmed++; confirmed == 3 {
					cancel(errEnough)
				}
			}
		})
		j.run(ctx)
		if err := j.end(); !errors.Is(err, errEnough) {
			t.Errorf("the runner ended with %v after %d checkpoints, want %v", err, confirmed, errEnough)
		}
	})
}

// late commits a checkpoint only when the next one is published.
type late struct {
	sink.Committer // what a ledger does not call
	mu             sync.Mutex
	newest         stream.CheckpointID
	moved          chan struct{} // closed and replaced when newest moves
}

func (c *late) published(id stream.CheckpointID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest = id
	close(c.moved)
	c.moved = make(chan struct{})
}

func (c *late) Commit(ctx context.Context, _ checkpoint.Permit, k checkpoint.Committable) (sink.Result, error) {
	for {
		c.mu.Lock()
		newest, moved := c.newest, c.moved
		c.mu.Unlock()
		if newest > k.Checkpoint {
			return sink.Result{Outcome: sink.Done}, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return sink.Result{}, context.Cause(ctx)
		}
	}
}

// TestRetentionBehindALateSink: a sink that is one checkpoint behind all its life keeps
// neither entries nor objects from being deleted.
func TestRetentionBehindALateSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		c, enough := &late{moved: make(chan struct{})}, make(chan struct{})
		j := startRunner(ctx, t, []stream.TaskID{outTask}, c, func(e stream.CheckpointEvent) {
			if e.Phase == "published" {
				c.published(e.ID)
				if e.ID.N() == 20 {
					close(enough)
				}
			}
		})
		j.ack = j.withRows
		j.run(ctx)
		<-enough
		synctest.Wait() // for what the scribe has left to do
		if n := restorable(t, j.st); n > 4 {
			t.Errorf("%d checkpoints are kept, want 3 and no more than what the sink is behind", n)
		}
		wantNoOrphans(t, j.st)
		h, err := checkpoint.ReadHistory(ctx, j.st)
		if err != nil || len(h.Entries) > 6 {
			t.Errorf("the log has %d entries, %v", len(h.Entries), err)
		}
		errEnough := errors.New("enough checkpoints")
		cancel(errEnough)
		if err := j.end(); !errors.Is(err, errEnough) {
			t.Errorf("the runner ended with %v", err)
		}
	})
}

// withRows acknowledges with an object of state and a committable.
func (j *running) withRows(id stream.CheckpointID) checkpoint.Ack {
	name := checkpoint.ObjectName(j.log.Lineage(), j.log.Number(), fmt.Sprint("own", id.N()))
	if _, _, err := j.st.Create(context.Background(), name, strings.NewReader(name)); err != nil {
		j.t.Error(err)
	}
	h := state.Handle{Role: state.Operator, Object: name, Size: int64(len(name))}
	return checkpoint.Ack{Task: outTask, ID: id,
		States: []checkpoint.TaskState{{TaskID: outTask, Handles: []state.Handle{h}}},
		Prepared: []checkpoint.Prepared{{Lane: outTask, Committables: []checkpoint.Committable{
			{Sink: "out", Checkpoint: id, Attempt: id.Attempt(), Kind: "late", Version: 1, Rows: 1}}}}}
}

// eager commits at once, and notes what.
type eager struct {
	sink.Committer // what a ledger does not call
	committed      chan stream.CheckpointID
}

func (c eager) Commit(_ context.Context, _ checkpoint.Permit, k checkpoint.Committable) (sink.Result, error) {
	c.committed <- k.Checkpoint
	return sink.Result{Outcome: sink.Done}, nil
}

// TestNothingIsCommittedAtThePublication: a process that is stopped at checkpoint.published has
// committed nothing of it, however long it stands there: that is what the point is for.
func TestNothingIsCommittedAtThePublication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		c := eager{committed: make(chan stream.CheckpointID, 100)}
		fault.Watch(func(point string) {
			if point != "checkpoint.published" || len(c.committed) > 0 {
				return
			}
			time.Sleep(time.Second) // virtual: whatever the lanes may do, they have done
			if len(c.committed) > 0 {
				t.Errorf("%s is committed already", <-c.committed)
			}
			cancel()
		})
		defer fault.Watch(nil)
		j := startRunner(ctx, t, []stream.TaskID{outTask}, c, nil)
		j.ack = j.withRows
		j.run(ctx)
		if err := j.end(); !errors.Is(err, context.Canceled) {
			t.Errorf("the runner ended with %v", err)
		}
	})
}
