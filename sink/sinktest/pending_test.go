package sinktest

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"etl/checkpoint"
	"etl/sink"
	"etl/state"
	"etl/stream"
)

// memPending is the slow part of a prepare.
type memPending struct {
	w *memWriter
	epoch
}

func (w *memWriter) deadline() (t time.Time) {
	if w.m.kind == appending && !w.m.is(deadlineNotTold) {
		t = w.env.Clock.Now().Add(memTimeout)
	}
	return t
}

func (p *memPending) Finish(ctx context.Context, up state.Uploader) (got sink.Prepared, err error) {
	w := p.w
	if w.m.is(epochNotSealed) {
		p.lines, w.open = w.open, nil
	}
	if w.m.kind == reducing {
		if err := w.settled(ctx); err != nil {
			return got, err
		}
	}
	if err := p.setAside(ctx, up, &got); err != nil {
		return got, err
	}
	p.replaces(&got)
	rows := rowsOf(p.lines)
	if w.m.kind == reducing {
		rows = reduced(rows)
	}
	if w.m.is(orderLost) {
		slices.Reverse(rows)
	}
	if len(rows) == 0 {
		return p.empty(got), nil
	}
	c := checkpoint.Committable{Sink: w.env.UID, Subtask: w.env.Subtask, Checkpoint: p.id, Attempt: w.env.Attempt, Kind: "mem", Version: 1,
		Rows: int64(len(rows)), Deadline: w.deadline()}
	if c.Payload, err = json.Marshal(payload{Job: w.env.Job, Lineage: w.env.Lineage, Attempt: w.name(p.id).attempt, ID: w.name(p.id).id}); err != nil {
		return got, err
	}
	if err := p.prepare(ctx, up, &c, rows); err != nil {
		return got, err
	}
	if w.m.is(committableOfNobody) {
		c.Attempt = 0
	}
	if w.m.kind != upserting {
		got.Committables = []checkpoint.Committable{c}
		w.mu.Lock()
		w.unended[p.id], w.last = true, &c
		w.mu.Unlock()
	}
	return got, nil
}

// payload is what a committable says.
type payload struct {
	Job     string              `json:"job"`
	Lineage stream.Lineage      `json:"lineage"`
	Attempt stream.Attempt      `json:"attempt"`
	ID      stream.CheckpointID `json:"id"`
}

// setAside keeps the rows that cannot be written for the next PrepareCommit.
func (p *memPending) setAside(ctx context.Context, up state.Uploader, got *sink.Prepared) error {
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	p.lines = slices.DeleteFunc(slices.Clone(p.lines), func(l line) bool {
		if l.N < 0 {
			w.bad = append(w.bad, l.offset)
		}
		return l.N < 0
	})
	if len(w.bad) == 0 {
		return nil
	}
	b, err := json.Marshal(w.bad)
	if err != nil {
		return err
	}
	h, err := up.Append(state.Writer, b).Wait(ctx)
	got.State, got.More = []state.Handle{h}, !w.m.is(moreNotSaid)
	return err
}

// replaces takes over the rows of aborted epochs, for the kind that prepares them again.
func (p *memPending) replaces(got *sink.Prepared) {
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	again := w.m.kind == reducing || w.m.is(abortWritesAgain) || w.m.is(replacesNotSaid)
	if !again {
		return
	}
	own := p.lines
	w.redo = slices.DeleteFunc(w.redo, func(e epoch) bool { return !w.isAborted(e.id) })
	var lines []line
	for _, e := range w.redo {
		lines = append(lines, e.lines...)
		if e.named && !w.m.is(replacesNotSaid) && !w.m.is(abortWritesAgain) {
			got.Replaces = append(got.Replaces, e.id)
		}
	}
	p.lines = append(lines, own...)
	if w.m.is(orderOfAborts) {
		p.lines = append(slices.Clone(own), lines...)
	}
	w.redo = append(w.redo, epoch{p.id, own, len(rowsOf(p.lines)) > 0})
}

// isAborted reports whether an epoch was neither resolved nor is it published: the kind
// with one epoch in flight knows by then.
func (w *memWriter) isAborted(id stream.CheckpointID) bool { return id > w.resolved }

// empty is an epoch without rows.
func (p *memPending) empty(got sink.Prepared) sink.Prepared {
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.m.is(emptyRepeats) && w.last != nil {
		c := *w.last
		c.Checkpoint, c.Rows = p.id, 0
		got.Committables = []checkpoint.Committable{c}
	}
	return got
}

// prepare makes the rows durable.
func (p *memPending) prepare(ctx context.Context, up state.Uploader, c *checkpoint.Committable, rows []Row) error {
	w, srv, n := p.w, p.w.m.srv, p.w.name(p.id)
	switch {
	case w.m.is(finishBeforeDurable):
		w.mu.Lock()
		defer w.mu.Unlock()
		w.redo = []epoch{{p.id, p.lines, true}}
		return nil
	case w.m.kind == upserting:
		if w.m.is(notFlushed) { // they go out with the next checkpoint
			w.mu.Lock()
			w.late, rows = rows, w.late
			w.mu.Unlock()
		}
		return w.m.do(func() error { srv.upsert(rows, !w.m.is(guardOmitted)); return nil })
	case w.m.kind == logging:
		b, err := json.Marshal(rows)
		if err != nil {
			return err
		}
		h, err := up.Append(state.Rows, b).Wait(ctx)
		c.Objects = []state.Handle{h}
		return err
	}
	if err := w.m.do(func() error { return srv.put(n, rows, w.deadline()) }); err != nil {
		return err
	}
	return w.m.do(func() error { return srv.prepare(n) })
}
