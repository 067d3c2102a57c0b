package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"etl/checkpoint"
	"etl/checkpoint/filestore"
	"etl/sink"
	"etl/state"
	"etl/stream"
)

// flow is a sink as a work drives it: from rows in memory, which are written over and over,
// through checkpoints that are published on a disk.
type flow struct {
	writer    sink.Writer
	committer sink.Committer // nil when nothing is committed
	batches   []*stream.Batch
	// repeats is how often the batches are written in each checkpoint.
	repeats int
	// changes is what becomes of a batch each time, nil for nothing.
	changes func(*stream.Batch)
	// single says that one checkpoint is committed before the next one begins. The first
	// one always is; what counts is what comes after it.
	single bool
}

// rows returns the number of rows of a checkpoint.
func (f *flow) rows() (n int) {
	for _, b := range f.batches {
		n += len(b.Records)
	}
	return n * f.repeats
}

// driver is a flow in motion, with what a job has around a sink.
type driver struct {
	*flow
	w       *work
	attempt *checkpoint.Attempt
	up      state.Uploader
	world   stream.World
	// sealed takes the epoch that is to be finished and permits what is to be committed:
	// one of each waits, as in a job with one checkpoint at a time.
	sealed  chan epoch
	permits chan permitted
	// moved tells the goroutine that writes that a checkpoint is published, or, where one
	// is waited for, committed.
	moved chan struct{}
}

// waits reports whether a checkpoint is committed before the next one begins.
func (d *driver) waits(id stream.CheckpointID) bool { return d.single || id.N() == 1 }

type epoch struct {
	id      stream.CheckpointID
	pending sink.Pending
}

type permitted struct {
	id     stream.CheckpointID
	permit checkpoint.Permit
	list   []checkpoint.Committable
	begin  time.Time
}

// through drives a connector.
func (w *work) through(ctx context.Context, s sink.Connector, f *flow) error {
	f.writer = s.NewWriter()
	defer func() { _ = f.writer.Close() }() // the process ends
	if c := s.NewCommitter(); c != nil {
		f.committer = c
		defer func() { _ = c.Close() }()
	}
	return w.drive(ctx, f)
}

// drive takes checkpoint after checkpoint through a sink. As in a job, the rows of one are
// written while the one before is finished, and the one before that is committed.
func (w *work) drive(ctx context.Context, f *flow) error {
	dir, err := os.MkdirTemp("", "etl-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	world := stream.SystemWorld(nil)
	st, err := filestore.Open(world, dir)
	if err != nil {
		return err
	}
	a, err := checkpoint.OpenAttempt(ctx, st, checkpoint.AttemptOptions{World: world, Holder: checkpoint.Holder{Host: "bench"}})
	if err != nil {
		return err
	}
	up := checkpoint.NewUploader(checkpoint.UploaderOptions{Storage: st, World: world, Lineage: a.Lineage(), Attempt: a.Number()})
	defer up.Close()
	d := &driver{flow: f, w: w, attempt: a, up: up, world: world, sealed: make(chan epoch), permits: make(chan permitted), moved: make(chan struct{}, 1)}
	if err := d.open(ctx, st); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan struct{})
	go func() {
		defer close(d.permits)
		cancelOn(cancel, d.finish(ctx))
	}()
	go func() {
		defer close(ended)
		cancelOn(cancel, d.commit(ctx))
	}()
	cancelOn(cancel, d.write(ctx))
	close(d.sealed)
	<-ended
	return context.Cause(ctx)
}

func cancelOn(cancel context.CancelCauseFunc, err error) {
	if err != nil {
		cancel(err)
	}
}

func (d *driver) open(ctx context.Context, st checkpoint.Storage) error {
	env := stream.Env{World: d.world, Job: "bench", UID: "out", Attempt: d.attempt.Number(), Parallelism: 1, Lineage: d.attempt.Lineage()}
	if d.committer != nil {
		err := d.committer.Open(ctx, sink.CommitEnv{World: d.world, Job: "bench", Lineage: env.Lineage, Attempt: env.Attempt, UID: env.UID, Objects: checkpoint.NewObjects(st)})
		if err != nil {
			return err
		}
	}
	return d.writer.Open(ctx, env, nil)
}

// write is the task: it writes rows and seals epochs.
func (d *driver) write(ctx context.Context) error {
	for n, written := uint32(1), 0; written < d.w.records; n++ {
		id, last := stream.NewCheckpointID(d.attempt.Number(), n), stream.NewCheckpointID(d.attempt.Number(), n-1)
		if n > 1 && d.waits(last) && !d.awaitMoved(ctx) {
			return nil
		}
		if n == 2 {
			d.w.meter.start()
		}
		if err := d.rowsOnce(ctx); err != nil {
			return err
		}
		written += d.rows()
		if n > 1 && !d.waits(last) && !d.awaitMoved(ctx) {
			return nil
		}
		p, err := d.writer.PrepareCommit(ctx, id, nil)
		if err != nil {
			return err
		}
		select {
		case d.sealed <- epoch{id, p}:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// rowsOnce writes the rows of a checkpoint.
func (d *driver) rowsOnce(ctx context.Context) error {
	for range d.repeats {
		for _, b := range d.batches {
			b.Retain()
			if d.changes != nil {
				d.changes(b)
			}
			if err := d.writer.Write(ctx, b, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *driver) awaitMoved(ctx context.Context) bool {
	select {
	case <-d.moved:
		return true
	case <-ctx.Done():
		return false
	}
}

// finish is the persister and the coordinator: it finishes epochs and publishes.
func (d *driver) finish(ctx context.Context) error {
	for e := range d.sealed {
		got, err := e.pending.Finish(ctx, d.up)
		if err != nil {
			return err
		}
		permit, err := d.attempt.Publish(ctx, &checkpoint.Metadata{Version: checkpoint.MetadataVersion, Job: "bench", Lineage: d.attempt.Lineage(), ID: e.id,
			Kind: "periodic", Mode: "exactly_once", MaxParallelism: 128, Committables: got.Committables})
		if err != nil {
			return err
		}
		begin := time.Now()
		d.writer.Published(e.id)
		if !d.waits(e.id) {
			d.moved <- struct{}{}
		}
		select {
		case d.permits <- permitted{e.id, permit, got.Committables, begin}:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// commit is the lane of the sink. Rows count when they are committed.
func (d *driver) commit(ctx context.Context) error {
	last := stream.NoCheckpoint
	for p := range d.permits {
		for _, c := range p.list {
			r, err := d.committer.Commit(ctx, p.permit, c)
			if err == nil && r.Outcome != sink.Done {
				err = fmt.Errorf("the commit of %s is %s: %s", p.id, r.Outcome, r.Detail)
			}
			if err != nil {
				return err
			}
		}
		d.writer.Resolved(p.id, false)
		d.writer.Resolved(last, true)
		last = p.id
		d.w.meter.add(d.rows())
		d.w.meter.checkpoint(time.Since(p.begin))
		if d.waits(p.id) {
			d.moved <- struct{}{}
		}
	}
	return nil
}
