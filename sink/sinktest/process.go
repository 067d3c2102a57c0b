package sinktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"

	"etl/checkpoint"
	"etl/sink"
	"etl/state"
	"etl/stream"
)

// maxParallelism is the number of key groups of the jobs.
const maxParallelism = 128

// process is one attempt of a job: what the engine does with its sink, step by step. A
// step whose process has died in it ends the goroutine, as rig.try expects.
type process struct {
	j   *job
	n   *node
	par int
	ctx context.Context

	attempt   *checkpoint.Attempt
	objects   checkpoint.Objects
	uploader  *checkpoint.Uploader
	sink      sink.Connector
	committer sink.Committer // nil when the sink commits nothing
	lanes     *lanes
	restored  *checkpoint.Metadata
	writers   []sink.Writer
	gone      bool // closed, or left to die

	at        int // the next row
	number    uint32
	sealed    []*round // neither published nor aborted
	permit    checkpoint.Permit
	published stream.CheckpointID
	rejects   rejects
	accepted  map[stream.TaskID]map[stream.CheckpointID]int // rows written, by lane and epoch
	batches   batches
}

// round is a checkpoint between its barrier and its end.
type round struct {
	id       stream.CheckpointID
	at       int // the first row after the barrier
	pendings []sink.Pending
	finished int // pendings that have
	states   []checkpoint.TaskState
	more     bool
}

// process returns a process that has not started yet.
func (j *job) process(par int) *process {
	ctx, died := context.WithCancel(context.Background())
	p := &process{j: j, n: newNode(died), par: par, ctx: ctx, accepted: map[stream.TaskID]map[stream.CheckpointID]int{}}
	j.r.mu.Lock()
	defer j.r.mu.Unlock()
	j.r.procs = append(j.r.procs, p)
	return p
}

// world is what the process lives in.
func (p *process) world() stream.World { return p.n.wrap(p.j.r.h.World) }

// lane returns the name of a subtask.
func (p *process) lane(sub int) stream.TaskID { return stream.TaskID{UID: p.j.uid, Subtask: sub} }

// call makes one call into the sink.
func (p *process) call(what string, f func(context.Context) error) error {
	r := p.j.r
	r.active.Store(p.n)
	defer r.active.Store(nil)
	if p.attempt != nil {
		what = fmt.Sprintf("%s of attempt %d", what, p.attempt.Number())
	}
	err := r.bounded(p.ctx, what, f)
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	r.note("%s%s", what, outcome(p, err))
	return err
}

func outcome(p *process, err error) string {
	switch {
	case p.n.isDead():
		return " (dead)"
	case err != nil:
		return " (failed)"
	}
	return ""
}

// do makes a call that must succeed.
func (p *process) do(what string, f func(context.Context) error) { p.must(p.call(what, f)) }

// must ends the test if err is not nil, and the process's story if it is dead.
func (p *process) must(err error) {
	if p.n.isDead() && !errors.Is(err, errHang) {
		runtime.Goexit()
	}
	p.j.r.must(err)
}

// next returns the id of the epoch that is being written.
func (p *process) next() stream.CheckpointID {
	return stream.NewCheckpointID(p.attempt.Number(), p.number+1)
}

// write writes the next n rows, each to the subtask of its key.
func (p *process) write(n int) { p.must(p.tryWrite(n)) }

func (p *process) tryWrite(n int) error {
	for n > 0 {
		size := min(n, 5)
		if err := p.writeSome(size); err != nil {
			return err
		}
		n -= size
	}
	return nil
}

func (p *process) writeSome(n int) error {
	bs := make([]*stream.Batch, p.par)
	for i := range bs {
		bs[i] = p.batches.make()
	}
	rows := make([]int, p.par)
	for range n {
		sub := subtask(p.j.key(p.at), p.par)
		bs[sub].Append(p.j.record(bs[sub], p.at))
		if p.j.flaw(p.at) != badAtWrite {
			rows[sub]++
		}
		p.at++
	}
	p.j.written = max(p.j.written, p.at)
	var errs []error
	for sub, b := range bs {
		if len(b.Records) == 0 {
			b.Release()
			continue
		}
		p.accept(sub, rows[sub])
		p.batches.own(b)
		errs = append(errs, p.call(fmt.Sprintf("write %d rows to subtask %d", rows[sub], sub), func(ctx context.Context) error {
			return p.writers[sub].Write(ctx, b, p.rejects.into(p.next()))
		}))
	}
	return errors.Join(errs...)
}

func (p *process) accept(sub, n int) {
	t := p.lane(sub)
	if p.accepted[t] == nil {
		p.accepted[t] = map[stream.CheckpointID]int{}
	}
	p.accepted[t][p.next()] += n
}

// prepare sends a barrier through the writers.
func (p *process) prepare() *round {
	rd, err := p.tryPrepare()
	p.must(err)
	return rd
}

func (p *process) tryPrepare() (*round, error) {
	id := p.next()
	rd := &round{id: id, at: p.at}
	p.number++
	for sub, w := range p.writers {
		err := p.call(fmt.Sprintf("prepare %s on subtask %d", id, sub), func(ctx context.Context) error {
			pending, err := w.PrepareCommit(ctx, id, p.rejects.into(id))
			if err == nil && pending == nil {
				err = errors.New("there is no Pending")
			}
			rd.pendings = append(rd.pendings, pending)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	p.j.position[id] = rd.at
	p.sealed = append(p.sealed, rd)
	return rd, nil
}

// finish does the slow part of a checkpoint.
func (p *process) finish(rd *round) { p.must(p.tryFinish(rd)) }

func (p *process) tryFinish(rd *round) error {
	if p.j.r.f.OneInFlight {
		p.settle()
	}
	for rd.finished < len(rd.pendings) {
		sub := rd.finished
		var got sink.Prepared
		err := p.call(fmt.Sprintf("finish %s on subtask %d", rd.id, sub), func(ctx context.Context) (err error) {
			got, err = rd.pendings[sub].Finish(ctx, p.uploader)
			return err
		})
		if err != nil {
			return err
		}
		if p.n.isDead() {
			return errDead
		}
		rd.finished++
		p.must(p.checkPrepared(rd, sub, &got))
		p.lanes.staged(p.lane(sub), got)
		rd.more = rd.more || got.More
		if len(got.State) > 0 {
			rd.states = append(rd.states, checkpoint.TaskState{TaskID: p.lane(sub), Handles: got.State})
		}
	}
	return nil
}

// abort gives a checkpoint up that every writer has finished.
func (p *process) abort(rd *round) { p.must(p.tryAbort(rd)) }

func (p *process) tryAbort(rd *round) error {
	p.end(rd)
	for sub, w := range p.writers {
		if err := p.call(fmt.Sprintf("abort %s on subtask %d", rd.id, sub), func(ctx context.Context) error { return w.Aborted(ctx, rd.id) }); err != nil {
			return err
		}
	}
	return nil
}

// end takes a round off the list.
func (p *process) end(rd *round) {
	rest := p.sealed[:0]
	for _, other := range p.sealed {
		if other != rd {
			rest = append(rest, other)
		}
	}
	p.sealed = rest
}

// checkpoint takes one that succeeds, commits included.
func (p *process) checkpoint() *round {
	rd := p.ready()
	p.publish(rd)
	p.settle()
	return rd
}

// ready takes a checkpoint up to its publication.
func (p *process) ready() *round {
	rd := p.prepare()
	p.finish(rd)
	return rd
}

// publishes takes a checkpoint of new rows up to its commits, of which it makes none.
func (p *process) publishes(rows int) *round {
	p.write(rows)
	rd := p.ready()
	p.publish(rd)
	return rd
}

// env is what a writer is opened with.
func (p *process) env(sub int) stream.Env {
	return stream.Env{World: p.world(), Job: p.j.name, Lineage: p.attempt.Lineage(), Attempt: p.attempt.Number(), UID: p.j.uid,
		Subtask: sub, Parallelism: p.par, MaxParallelism: maxParallelism, KeyGroups: stream.RangeOf(sub, p.par, maxParallelism),
		Rand: rand.New(rand.NewPCG(uint64(sub), 1)), Counters: new(stream.Counters)}
}

// stateOf returns what the restored checkpoint kept for a subtask's writer. What
// subtasks kept that are no more goes to those that are.
func (p *process) stateOf(sub int) (hs []state.Handle) {
	for _, t := range p.restored.Tasks {
		if t.UID == p.j.uid && t.Subtask%p.par == sub {
			hs = append(hs, t.Handles...)
		}
	}
	return hs
}
