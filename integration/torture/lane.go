package torture

import (
	"context"
	"slices"
	"sync"
)

// lane lets a number of parts run at once; of those that wait, the one with the lowest
// rank comes next. So what demand.go asks for is done first when time is short,
// and what takes long does not begin last.
type lane struct {
	mu      sync.Mutex
	free    int
	waiting []*waiter // by rank, then as they came
}

type waiter struct {
	rank int
	turn chan struct{} // closed when it is its turn
}

func newLane(places int) *lane { return &lane{free: places} }

// enter waits for a place. The caller gives it back with leave.
func (l *lane) enter(ctx context.Context, rank int) error {
	w := &waiter{rank: rank, turn: make(chan struct{})}
	l.mu.Lock()
	i, _ := slices.BinarySearchFunc(l.waiting, rank+1, func(w *waiter, r int) int { return w.rank - r })
	l.waiting = slices.Insert(l.waiting, i, w)
	l.next()
	l.mu.Unlock()
	select {
	case <-w.turn:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiting, w); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	} else {
		l.free++
		l.next()
	}
	return context.Cause(ctx)
}

// next gives free places to those that wait. It is called with the lock held.
func (l *lane) next() {
	for l.free > 0 && len(l.waiting) > 0 {
		l.free--
		close(l.waiting[0].turn)
		l.waiting = l.waiting[1:]
	}
}

func (l *lane) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free++
	l.next()
}
