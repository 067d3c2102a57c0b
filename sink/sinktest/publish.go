package sinktest

import (
	"context"
	"fmt"

	"etl/checkpoint"
	"etl/sink"
	"etl/stream"
)

// checkPrepared looks at what a Finish has returned: who may commit it, until when, and
// how many rows it holds must all be in it.
func (p *process) checkPrepared(rd *round, sub int, got *sink.Prepared) error {
	lane, seqs := p.lane(sub), map[int]bool{}
	rows := int64(0)
	for i := range got.Committables {
		c := &got.Committables[i]
		switch {
		case c.Lane() != lane || c.Checkpoint != rd.id || c.Attempt != p.attempt.Number():
			return fmt.Errorf("finish %s of %s: the committable says %s of %s, attempt %d", rd.id, lane, c.Checkpoint, c.Lane(), c.Attempt)
		case c.Kind == "" || c.Version < 1:
			return fmt.Errorf("finish %s of %s: the committable has kind %q version %d", rd.id, lane, c.Kind, c.Version)
		case seqs[c.Seq]:
			return fmt.Errorf("finish %s of %s: two committables have number %d", rd.id, lane, c.Seq)
		}
		if err := p.checkDeadline(c); err != nil {
			return err
		}
		seqs[c.Seq], rows = true, rows+c.Rows
	}
	return p.checkRows(rd, lane, got, rows)
}

func (p *process) checkDeadline(c *checkpoint.Committable) error {
	now, timeout := p.j.r.now(), p.j.r.f.Timeout
	if timeout == 0 && c.Deadline.IsZero() || timeout > 0 && c.Deadline.After(now) && !c.Deadline.After(now.Add(timeout)) {
		return nil
	}
	return fmt.Errorf("finish %s of %s at %s: the deadline is %s, the features say %v", c.Checkpoint, c.Lane(), now, c.Deadline, timeout)
}

// checkRows compares the number of rows with what was written since the last epoch that
// is still prepared. Keys that are reduced, and rows found bad, leave fewer.
func (p *process) checkRows(rd *round, lane stream.TaskID, got *sink.Prepared, rows int64) error {
	want := p.accepted[lane][rd.id]
	for _, id := range got.Replaces {
		if _, ok := p.j.position[id]; !ok || id >= rd.id {
			return fmt.Errorf("finish %s of %s replaces %s", rd.id, lane, id)
		}
		want += p.accepted[lane][id]
	}
	if p.accepted[lane] != nil {
		p.accepted[lane][rd.id] = want
	}
	reduced := p.j.r.f.Upsert || p.j.spoiled
	if p.committer != nil && (rows > int64(want) || rows < int64(want) && !reduced) {
		return fmt.Errorf("finish %s of %s: %d rows are prepared, %d were written", rd.id, lane, rows, want)
	}
	return nil
}

// publish makes a finished checkpoint complete (B8, B9), as checkpoint.Runner does.
func (p *process) publish(rd *round) { p.must(p.tryPublish(rd)) }

func (p *process) tryPublish(rd *round) error {
	confirmed, err := p.append(rd)
	if err != nil {
		return err
	}
	for sub := range p.writers {
		p.do("published", func(context.Context) error { p.writers[sub].Published(rd.id); return nil })
	}
	p.lanes.ledger.Published(p.permit, confirmed)
	return nil
}

// append is the publication alone: the process may die before anybody hears of it.
func (p *process) append(rd *round) (confirmed map[stream.TaskID]stream.CheckpointID, err error) {
	cs, confirmed := p.lanes.ledger.List(rd.id)
	m := p.metadata(rd.id, "periodic")
	m.Tasks, m.Committables, m.ConfirmedThrough = rd.states, cs, checkpoint.Lanes(confirmed)
	permit, err := p.attempt.Publish(p.ctx, m)
	p.j.r.note("publish %s%s", rd.id, outcome(p, err))
	if err != nil {
		return nil, err
	}
	p.end(rd)
	p.permit, p.published = permit, rd.id
	p.j.limit = max(p.j.limit, rd.at)
	p.j.rejected = append(p.j.rejected, p.rejects.upTo(rd.id)...)
	return confirmed, nil
}

func (p *process) metadata(id stream.CheckpointID, kind string) *checkpoint.Metadata {
	return &checkpoint.Metadata{Version: checkpoint.MetadataVersion, Job: p.j.name, Lineage: p.attempt.Lineage(), ID: id, Kind: kind,
		Mode: string(checkpoint.ExactlyOnce), MaxParallelism: maxParallelism, TriggeredAt: p.j.r.now(),
		Operators: []checkpoint.OperatorMeta{{UID: p.j.uid, Kind: "sink", Type: "test", Parallelism: p.par}}}
}

// finishJob takes final checkpoints until nothing is held back any more, notes that
// all is resolved, and ends the process cleanly (I17).
func (p *process) finishJob() {
	for tries := 0; p.checkpoint().more; tries++ {
		if tries == 3 {
			p.j.r.failf("after %d checkpoints without rows the sink still holds rows back", tries)
		}
	}
	_, confirmed := p.lanes.ledger.List(stream.NoCheckpoint)
	p.must(p.attempt.Confirm(p.ctx, confirmed))
	p.close()
}

// close ends the process cleanly, which ends no transaction.
func (p *process) close() {
	p.must(p.tryClose())
	if n := p.batches.left(); n > 0 {
		p.j.r.failf("%d batches were never released", n)
	}
}

func (p *process) tryClose() error {
	p.gone = true
	if err := p.closeWriters(); err != nil {
		return err
	}
	p.uploader.Close()
	if p.committer != nil {
		if err := p.call("close committer", func(context.Context) error { return p.committer.Close() }); err != nil {
			return err
		}
	}
	return nil
}

// closeWriters stops the lanes and closes the writers, as the engine does first.
func (p *process) closeWriters() error {
	p.lanes.ledger.Close()
	for sub, w := range p.writers {
		if err := p.call(fmt.Sprintf("close writer %d", sub), func(context.Context) error { return w.Close() }); err != nil {
			return err
		}
	}
	p.writers = nil
	return nil
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	p.j.r.note("kill")
	p.n.kill()
	p.abandon()
}

// abandon frees in the background what a process has left in memory.
func (p *process) abandon() {
	if p.gone {
		return
	}
	p.gone = true
	p.n.kill()
	p.j.r.busy.Go(func() {
		if p.lanes != nil {
			p.lanes.ledger.Close()
		}
		for _, w := range p.writers {
			_ = w.Close()
		}
		if p.uploader != nil {
			p.uploader.Close()
		}
		if p.committer != nil {
			_ = p.committer.Close()
		}
	})
}
