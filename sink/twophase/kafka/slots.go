package kafka

import (
	"context"
	"sync"

	"etl/internal/invariant"
	"etl/stream"
)

// phase is where a slot is in its life; see the package comment.
type phase uint8

const (
	free     phase = iota
	open           // being initialised, ready, or written to
	prepared       // belongs to a checkpoint; its commit is not verified
	verified       // committed and visible; a complete checkpoint may still list it
)

// slot is one transactional id of a subtask.
type slot struct {
	n     int
	phase phase
	id    stream.CheckpointID // while prepared or verified
	rows  int64
	kept  *producer // to be used again, when producers are kept
}

// slots hands out transactional ids. Resolved comes from the ledger at any time, so
// all of it is under a lock; it is taken a few times per checkpoint.
type slots struct {
	limit int

	mu    sync.Mutex
	all   []*slot
	freed chan struct{} // closed and replaced when a slot may have become usable
}

func newSlots(limit int) *slots { return &slots{limit: limit, freed: make(chan struct{})} }

// take returns a slot for a new transaction: a free one, a new one, or the oldest
// verified one. It waits only while all are open or unresolved.
func (s *slots) take(ctx context.Context) (*slot, error) {
	for {
		s.mu.Lock()
		sl, wait := s.usable(), s.freed
		if sl != nil {
			sl.phase, sl.id, sl.rows = open, stream.NoCheckpoint, 0
		}
		s.mu.Unlock()
		if sl != nil {
			return sl, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (s *slots) usable() *slot {
	var oldest *slot
	for _, sl := range s.all {
		if sl.phase == free {
			return sl
		}
		if sl.phase == verified && (oldest == nil || sl.id < oldest.id) {
			oldest = sl
		}
	}
	if len(s.all) < s.limit {
		sl := &slot{n: len(s.all)}
		s.all = append(s.all, sl)
		return sl
	}
	return oldest
}

// giveBack returns an open slot whose transaction was never begun.
func (s *slots) giveBack(sl *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	invariant.Check(sl.phase == open, "slot %d is given back in phase %d", sl.n, sl.phase)
	sl.phase = free
	s.notify()
}

// prepare makes an open slot part of checkpoint id.
func (s *slots) prepare(sl *slot, id stream.CheckpointID, rows int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	invariant.Check(sl.phase == open, "I16: slot %d is prepared for %s in phase %d", sl.n, id, sl.phase)
	sl.phase, sl.id, sl.rows = prepared, id, rows
}

// resolve takes up what the ledger says: all up to id is verified, and retired when
// nobody will ask about it again. It returns the rows that became visible.
func (s *slots) resolve(id stream.CheckpointID, retired bool) (rows int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sl := range s.all {
		if sl.id > id || sl.phase != prepared && sl.phase != verified {
			continue
		}
		if sl.phase == prepared {
			rows += sl.rows
			sl.phase = verified
		}
		if retired {
			sl.phase, sl.id = free, stream.NoCheckpoint
		}
	}
	s.notify()
	return rows
}

func (s *slots) notify() {
	close(s.freed)
	s.freed = make(chan struct{})
}

// keep stores a producer with its slot, for the slot's next transaction.
func (s *slots) keep(sl *slot, p *producer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl.kept = p
}

// unkeep takes the producer that was kept with a slot, nil for none.
func (s *slots) unkeep(sl *slot) *producer {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := sl.kept
	sl.kept = nil
	return p
}
