package statetest

import (
	"errors"
	"fmt"
	"maps"

	"etl/state"
	"etl/stream"
)

// barrier takes the snapshot of a task for the checkpoint under way, or the next.
func (m *model) barrier(t *task) error {
	var c *pending
	if l := len(m.pending); l > 0 && len(m.pending[l-1].taken) < len(m.tasks) {
		c = m.pending[l-1]
	} else if l < 2 {
		m.number++
		c = &pending{id: stream.NewCheckpointID(m.w.Attempt, m.number), open: len(m.tasks), taken: map[*task]bool{}, want: map[string]string{}}
		m.pending = append(m.pending, c)
	} else {
		return nil
	}
	if c.taken[t] {
		return nil
	}
	snap, err := t.store.Snapshot(c.id)
	if err != nil {
		return err
	}
	c.taken[t] = true
	t.queue = append(t.queue, &sealed{of: c, snap: snap, want: maps.Clone(t.live)})
	t.dirty = map[string]bool{}
	t.sliceSum = 0
	return nil
}

func (m *model) slice(t *task) error {
	_, err := t.store.Slice()
	t.store.OverBudget()
	return err
}

// persist lets the slow part of the oldest snapshot run in the background.
func (m *model) persist(t *task) error {
	if len(t.queue) == 0 || t.running != nil {
		return nil
	}
	if m.fails("upload fails", 6) {
		m.w.Storage.mu.Lock()
		m.w.Storage.FailAppends = 1
		m.w.Storage.mu.Unlock()
	}
	if m.fails("base upload fails", 6) {
		m.w.Storage.mu.Lock()
		m.w.Storage.FailCreates = 1
		m.w.Storage.mu.Unlock()
	}
	s, ctx, up := t.queue[0], m.ctx, m.uploader
	for _, other := range m.tasks { // a backend may wait until all have sealed
		if err := m.barrier(other); err != nil {
			return err
		}
	}
	done := make(chan persisted, 1)
	t.running = done
	go func() {
		hs, err := s.snap.Persist(ctx, up)
		done <- persisted{hs, err}
	}()
	return nil
}

// await slices until the slow part has ended, and draws the conclusions.
func (m *model) await(t *task) error {
	if t.running == nil {
		return nil
	}
	for {
		select {
		case p := <-t.running:
			return m.finished(t, p)
		default:
		}
		if more, err := t.store.Slice(); err != nil || !more {
			if err != nil {
				return err
			}
			return m.finished(t, m.ended(t))
		}
	}
}

// ended waits for the slow part, and lets the backend go on as far as that needs.
func (m *model) ended(t *task) persisted {
	for m.f.Step != nil {
		m.f.Wait()
		select {
		case p := <-t.running:
			return p
		default:
		}
		m.w.Storage.Hold(false)
		if !m.f.Step(m.backend) {
			break
		}
	}
	return <-t.running
}

func (m *model) finished(t *task, p persisted) error {
	s := t.queue[0]
	t.queue, t.running = t.queue[1:], nil
	c := s.of
	c.open--
	switch {
	case p.err != nil && !errors.Is(p.err, ErrInjected):
		return fmt.Errorf("persist %s of %s: %w", c.id, t.id, p.err)
	case p.err != nil:
		s.snap.Release(false)
		c.aborted = true
	case m.fails("acknowledgement is lost", 12):
		s.snap.Release(false)
		c.aborted = true
	default:
		if err := checkChain(c.id, t.groups, p.handles); err != nil {
			return fmt.Errorf("%s: %w", t.id, err)
		}
		s.snap.Release(true)
		c.handles = append(c.handles, p.handles...)
		maps.Copy(c.want, s.want)
	}
	if c.open > 0 {
		return nil
	}
	m.pending = m.pending[1:]
	if !c.aborted && !m.fails("aborted elsewhere", 6) {
		m.publish(c)
	}
	return nil
}

// checkChain is what publication checks (I7).
func checkChain(id stream.CheckpointID, groups stream.KeyGroupRange, hs []state.Handle) error {
	end, begun := stream.NoCheckpoint, false
	for _, h := range hs {
		if h.KeyGroups != groups {
			return fmt.Errorf("a handle of key groups %v instead of %v", h.KeyGroups, groups)
		}
		switch {
		case h.Role == state.BaseFile && begun:
			return errors.New("a base file after a segment")
		case h.Role == state.BaseFile:
			end = h.To
		case h.From != end || h.To <= h.From:
			return fmt.Errorf("segment (%s, %s] does not follow %s", h.From, h.To, end)
		default:
			end, begun = h.To, true
		}
	}
	if end != id {
		return fmt.Errorf("the chain ends at %s instead of %s", end, id)
	}
	return nil
}

func (m *model) publish(c *pending) {
	before := m.listed()
	m.retained = append(m.retained, &published{id: c.id, handles: c.handles, want: c.want})
	m.retained = m.retained[max(0, len(m.retained)-retain):]
	m.w.Storage.Keep(before, m.listed())
	if !m.fails("notification is lost", 5) {
		m.backend.Completed(c.id)
	}
}

// listed returns all handles of retained checkpoints.
func (m *model) listed() (hs []state.Handle) {
	for _, p := range m.retained {
		hs = append(hs, p.handles...)
	}
	return hs
}
