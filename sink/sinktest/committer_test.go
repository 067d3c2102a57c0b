package sinktest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"etl/checkpoint"
	"etl/sink"
	"etl/stream"
)

// memCommitter is phase two of all kinds.
type memCommitter struct {
	m   *memory
	env sink.CommitEnv
}

func (c *memCommitter) Open(_ context.Context, env sink.CommitEnv) error { c.env = env; return nil }
func (c *memCommitter) Close() error                                     { return nil }

func (c *memCommitter) sink() sinkName {
	return sinkName{c.env.Job, c.env.UID, c.env.Lineage}
}

// decode reads a committable, and refuses what it does not know.
func (c *memCommitter) decode(k *checkpoint.Committable) (n txnName, err error) {
	if (k.Kind != "mem" || k.Version != 1) && !c.m.is(versionNotChecked) {
		return n, stream.Errorf(stream.RestoreRefused, "mem.kind", "read committable", sink.Name(k), "kind %q version %d", k.Kind, k.Version)
	}
	var p payload
	d := json.NewDecoder(bytes.NewReader(k.Payload))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return n, err
	}
	return txnName{laneName{sinkName{p.Job, k.Sink, p.Lineage}, k.Subtask}, p.Attempt, p.ID}, nil
}

func (c *memCommitter) Probe(_ context.Context, cs []checkpoint.Committable, _ time.Time) (out []sink.Probed, err error) {
	for i := range cs {
		n, err := c.decode(&cs[i])
		if err != nil {
			return nil, err
		}
		p := sink.Probed{Deadline: cs[i].Deadline}
		err = c.m.do(func() error {
			p.Marker, p.Status = c.marker(n.laneName), c.status(n, &cs[i])
			return nil
		})
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// marker reads the marker of a lane.
func (c *memCommitter) marker(n laneName) stream.CheckpointID {
	if c.m.is(oneMarkerForAll) {
		n.subtask = 0
		var newest stream.CheckpointID
		for sub := range 4 {
			n.subtask = sub
			newest = max(newest, c.m.srv.marker(n))
		}
		return newest
	}
	return c.m.srv.marker(n)
}

func (c *memCommitter) status(n txnName, k *checkpoint.Committable) sink.Status {
	srv := c.m.srv
	open := srv.isOpen(n) || c.m.kind == logging
	switch {
	case c.m.is(probeCommits) && open && c.m.kind == appending:
		srv.commit(n)
	case c.m.is(probeAborts) && open:
		srv.abort(func(o txnName) bool { return o == n })
	}
	switch marker := c.marker(n.laneName); {
	case c.m.is(laneUnknown) && k.Subtask >= c.m.p.Parallelism:
		return sink.Gone
	case c.m.is(openCalledGone) && open:
		return sink.Gone
	case marker >= k.Checkpoint && !c.m.is(committedCalledOpen):
		return sink.Committed
	case open || c.m.is(committedCalledOpen):
		return sink.Open
	case c.m.is(goneCalledCommitted):
		return sink.Committed
	}
	return sink.Gone
}

func (c *memCommitter) Marker(_ context.Context, subtask int) (id stream.CheckpointID, err error) {
	err = c.m.do(func() error {
		if c.env.Fresh && c.m.srv.foreign(c.sink()) && !c.m.is(lineageNotCompared) {
			return stream.Errorf(stream.RestoreRefused, "mem.foreign", "start", string(c.env.UID), "another life has committed here")
		}
		if !c.m.is(markersHidden) {
			id = c.marker(laneName{c.sink(), subtask})
		}
		return nil
	})
	return id, err
}

func (c *memCommitter) Commit(ctx context.Context, p checkpoint.Permit, k checkpoint.Committable) (sink.Result, error) {
	if !p.Covers(&k) && !c.m.is(permitNotAsked) {
		return sink.Result{}, fmt.Errorf("the permit of %s does not cover %s", p.ID(), sink.Name(&k))
	}
	n, err := c.decode(&k)
	if err != nil {
		return sink.Result{}, err
	}
	if c.m.is(commitNeedsWriter) && k.Attempt != c.env.Attempt {
		return sink.Result{Outcome: sink.Lost}, nil
	}
	if c.m.kind == logging {
		return c.deliver(ctx, n, &k)
	}
	return c.commit(n, &k)
}

func (c *memCommitter) commit(n txnName, k *checkpoint.Committable) (r sink.Result, err error) {
	srv := c.m.srv
	err = c.m.do(func() error {
		switch {
		case c.m.is(commitTwice):
			srv.repeat(n)
		case c.m.is(orderNotKept) || c.m.is(zombieCommits):
			srv.forgetMarker(n)
		}
		switch srv.commit(n) {
		case committedNow:
			r.Outcome = sink.Done
		case tooLate:
			return fmt.Errorf("I5: %s after a later one", n)
		case unknown:
			r.Outcome = c.resolve(n, k)
			r.ByMarker = r.Outcome == sink.Already
		}
		return nil
	})
	if err != nil && !isRefusal(err) {
		if c.m.is(brokenCalledLost) {
			return sink.Result{Outcome: sink.Lost, Detail: err.Error()}, nil
		}
		return sink.Result{Outcome: sink.Transient, Detail: err.Error()}, nil
	}
	return r, err
}

func isRefusal(err error) bool { return !errors.Is(err, errDead) && !errors.Is(err, errCut) }

// resolve finds out what became of what the server does not know.
func (c *memCommitter) resolve(n txnName, k *checkpoint.Committable) sink.Outcome {
	switch {
	case c.m.is(goneCalledCommitted):
		return sink.Already
	case c.marker(n.laneName) >= k.Checkpoint && !c.m.is(markerNotRead):
		return sink.Already
	}
	return sink.Lost
}

// deliver applies the rows that lie in the checkpoint.
func (c *memCommitter) deliver(ctx context.Context, n txnName, k *checkpoint.Committable) (r sink.Result, err error) {
	f, err := c.env.Objects.Read(ctx, k.Objects[0])
	if err != nil {
		return r, err
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return r, err
	}
	var rows []Row
	if err := json.Unmarshal(b, &rows); err != nil {
		return r, err
	}
	err = c.m.do(func() error {
		fresh, err := c.m.apply(c.env.Attempt, n, rows)
		if r.Outcome = sink.Already; fresh {
			r.Outcome = sink.Done
		}
		return err
	})
	if err != nil && !isRefusal(err) {
		return sink.Result{Outcome: sink.Transient}, nil
	}
	return r, err
}

func (c *memCommitter) Fence(_ context.Context, owners []stream.Attempt, keep []checkpoint.Committable) error {
	var kept []txnName
	for i := range keep {
		n, err := c.decode(&keep[i])
		if err != nil {
			return err
		}
		kept = append(kept, n)
	}
	if c.m.is(fenceForgets) {
		return nil
	}
	own := c.sink()
	return c.m.do(func() error {
		if !c.m.is(zombieCommits) && !slices.Contains(owners, c.env.Attempt) {
			c.m.srv.fence(own, c.env.Attempt)
		}
		for _, a := range owners {
			if c.m.is(namesWithoutAttempt) {
				continue
			}
			again := c.m.srv.seal(txnName{laneName: laneName{sinkName: own}, attempt: a})
			if again && c.m.is(fenceOnce) {
				return stream.Errorf(stream.Failed, "mem.fence", "fence", fmt.Sprint(a), "attempt %d is fenced", a)
			}
		}
		c.m.srv.abort(func(n txnName) bool { return c.mine(n, owners) && (c.m.is(keepIgnored) || !slices.Contains(kept, n)) })
		return nil
	})
}

// mine reports whether a transaction is one that a fence of the owners ends.
func (c *memCommitter) mine(n txnName, owners []stream.Attempt) bool {
	own := c.sink()
	if c.m.is(lineageIgnored) {
		own.lineage = n.lineage
	}
	if c.m.is(sinkIgnored) {
		own.sink = n.sink
	}
	if c.m.is(jobIgnored) {
		own.job = n.job
	}
	if c.m.is(laneForgotten) && n.subtask >= c.m.p.Parallelism {
		return false
	}
	return n.sinkName == own && (slices.Contains(owners, n.attempt) || c.m.is(ownersIgnored))
}

func (c *memCommitter) Inspect(context.Context) (out []sink.InDoubt, err error) {
	err = c.m.do(func() error {
		for _, n := range c.m.srv.list(func(n txnName) bool { return n.job == c.env.Job && n.sink == c.env.UID }) {
			if c.m.is(inspectMisses) && n.attempt == c.env.Attempt {
				continue
			}
			out = append(out, sink.InDoubt{ID: n.String(), Attempt: n.attempt, Subtask: n.subtask, Checkpoint: n.id, State: "prepared"})
			if c.m.is(inspectEnds) {
				c.m.srv.abort(func(o txnName) bool { return o == n })
			}
		}
		return nil
	})
	return out, err
}

// IDOf, End and Find make it a sink.Repairer.
func (c *memCommitter) IDOf(k *checkpoint.Committable) (string, error) {
	n, err := c.decode(k)
	if c.m.is(otherName) {
		n.subtask++
	}
	return n.String(), err
}

func (c *memCommitter) End(_ context.Context, id string, commit bool) error {
	if commit {
		return errors.ErrUnsupported
	}
	return c.m.do(func() error {
		c.m.srv.abort(func(n txnName) bool {
			return !c.m.is(endsNothing) && (n.String() == id || c.m.is(endsAll) && n.sinkName == c.sink())
		})
		return nil
	})
}

func (c *memCommitter) Find(ctx context.Context, _ string) ([]sink.InDoubt, error) {
	return c.Inspect(ctx)
}
