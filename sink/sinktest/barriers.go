package sinktest

import (
	"context"

	"etl/sink"
	"etl/stream"
)

var barrierRules = []rule{
	{"the barrier cuts", nil, cuts},
	{"what is finished needs no process", committing, durable},
	{"an epoch without rows leaves nothing", nil, withoutRows},
	{"an abort loses nothing", nil, aborted},
	{"an abort loses nothing in a crash", nil, abortedAndKilled},
	{"rows of a key keep their order", nil, ordered},
	{"an epoch waits for the last one", committing, waits},
	{"batches are released, and read no more", nil, released},
	{"news come at any time", committing, news},
	{"closing ends nothing", committing, closing},
}

// cuts: rows after the barrier belong to the next checkpoint, however late the slow
// part runs (I2). A restart writes them again, and they are seen once.
func cuts(r *rig) {
	j := r.job()
	p := j.start(2)
	p.write(20)
	rd := p.prepare()
	p.write(15)
	p.finish(rd)
	p.publish(rd)
	p.settle()
	j.look() // nothing of the second epoch
	p.kill()
	p = j.start(2)
	p.write(15)
	p.finishJob()
	j.want(35)
}

// durable: after Finish has returned, the process may die, and what it published can be
// committed. Several epochs lie one behind the other, where the sink can do that.
func durable(r *rig) {
	j := r.job()
	p := j.start(2)
	for range 2 {
		p.publishes(9)
	}
	p.write(9)
	rd := p.ready()
	p.write(9)
	_, err := p.append(rd) // and nobody hears of it
	p.must(err)
	p.kill()
	p = j.start(2)
	j.want(27)
	p.write(3)
	p.finishJob()
	j.want(30)
}

// withoutRows: epochs of no rows come first, in between, in some lanes and in all; they
// are published, aborted and restored like others.
func withoutRows(r *rig) {
	j := r.job()
	p := j.start(3)
	p.checkpoint()
	p.write(1)
	p.abort(p.ready())
	p.checkpoint()
	j.want(1)
	p.checkpoint()
	p.abort(p.ready())
	p.write(20)
	p.checkpoint()
	j.want(21)
	p.checkpoint()
	p.kill()
	p = j.start(3)
	p.checkpoint()
	p.write(2)
	p.finishJob()
	j.want(23)
}

// aborted: rows of an aborted checkpoint come with the next one, once, in order; after
// one abort, after as many as are tolerable, with rows between and without (I7).
func aborted(r *rig) {
	j := r.job()
	p := j.start(2)
	rows := 0
	write := func(n int) {
		p.write(n)
		rows += n
	}
	for aborts := range r.s.Policy.TolerableFailures + 1 {
		for i := range aborts {
			write(8 - 4*i)
			p.abort(p.ready())
			j.look() // nothing of it
		}
		write(5)
		p.checkpoint()
		j.want(rows)
	}
	p.finishJob()
	j.want(rows)
}

// abortedAndKilled: the process dies when checkpoint n is aborted, and when n+1, which
// lists what n has left, is published.
func abortedAndKilled(r *rig) {
	j := r.job()
	p := j.start(2)
	p.write(10)
	p.checkpoint()
	p.write(10)
	p.abort(p.ready())
	p.kill()
	p = j.start(2)
	p.write(10)
	p.abort(p.ready())
	p.write(6)
	p.abort(p.ready())
	p.publishes(4)
	p.write(3)
	p.kill()
	p = j.start(2)
	j.want(30)
	p.write(3)
	p.finishJob()
	j.want(33)
}

// ordered: many epochs follow each other at once, aborted ones among them, and nothing
// overtakes (I15). The check is part of every look.
func ordered(r *rig) {
	j := r.job()
	p := j.start(2)
	for i := range 6 {
		p.write(60)
		rd := p.prepare()
		p.write(60)
		p.finish(rd)
		if i%3 == 1 {
			p.abort(rd)
			continue
		}
		p.publish(rd)
		if i%2 == 0 {
			p.settle()
		}
	}
	p.finishJob()
	j.want(720)
}

// waits: the next epoch is sealed while the last one is published and not committed. It
// may wait for that commit, and must go on with it.
func waits(r *rig) {
	j := r.job()
	p := j.start(1)
	p.publishes(10)
	p.write(10)
	rd := p.prepare()
	p.write(5)
	done := make(chan error, 1)
	go func() {
		got, err := rd.pendings[0].Finish(p.ctx, p.uploader)
		if err == nil {
			rd.finished = 1
			p.lanes.staged(p.lane(0), got)
		}
		done <- err
	}()
	r.pause() // until it waits
	p.settle()
	p.do("finish after the commit", func(ctx context.Context) error {
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return errHang
		}
	})
	p.publish(rd)
	p.finishJob()
	j.want(25)
}

// released: a batch is given back once its rows need its bytes no more, and exactly
// once. Bytes of released batches are spoiled, so who reads them writes nonsense.
func released(r *rig) {
	j := r.job()
	p := j.start(2)
	for range 3 {
		p.write(25)
		p.abort(p.ready())
		p.write(10)
		p.checkpoint()
	}
	p.checkpoint()
	r.eventually(func() string {
		if p.batches.left() > 0 {
			return "batches are not released although everything is committed and retired"
		}
		return ""
	})
	p.finishJob()
	j.want(105)
}

// news: Published and Resolved come from other goroutines at any time, repeated, for
// checkpoints without rows, and late. They return at once.
func news(r *rig) {
	j := r.job()
	p := j.start(1)
	told := []stream.CheckpointID{p.restored.ID}
	for range 4 {
		p.hear(told)
		p.write(6)
		p.hear(told)
		rd := p.ready()
		p.hear(told)
		p.publish(rd)
		p.settle()
		told = append(told, rd.id)
	}
	p.finishJob()
	j.want(24)
}

// hear tells a writer once more what it knows; all but the newest is retired.
func (p *process) hear(ids []stream.CheckpointID) {
	p.do("hear the news", func(context.Context) error {
		for i, id := range ids {
			p.writers[0].Published(id)
			p.writers[0].Resolved(id, false)
			if i < len(ids)-1 {
				p.writers[0].Resolved(id, true)
			}
		}
		return nil
	})
}

// closing: whoever closes a writer and a committer gives up nothing. The next attempt
// finds what is published, and clears away the rest.
func closing(r *rig) {
	j := r.job()
	p := j.start(2)
	rd := p.publishes(10)
	if !r.f.OneInFlight {
		p.write(10)
		p.ready() // prepared, never published
	}
	p.write(10) // open
	p.must(p.tryClose())
	j.seesNothingNew(0)
	next := j.outsider(2)
	next.wantStatus(next.listed(rd.id), sink.Open)
	p = j.start(2)
	j.want(10)
	p.write(10)
	p.finishJob()
	j.want(20)
}
