package memstore

import (
	"context"

	"etl/checkpoint"
)

// Call is one call of a Store.
type Call struct {
	N    int    // counts the calls of the store, from 1
	Op   string // put create get open stat list delete note lock
	Name string
}

// Verdict is what becomes of a call. The zero Verdict lets it happen.
type Verdict struct {
	// Err is what the caller gets.
	Err error
	// Lost: the call has no effect. Only together with Err.
	Lost bool
	// Late: the effect comes when the channel is closed, long after the caller got
	// Err; the answer and the request were parted on the way. Only together with Err.
	Late <-chan struct{}
	// Wait delays the call until the channel is closed or the context ends.
	Wait <-chan struct{}
}

// Inject asks f about every call before it happens, until f is nil. Err alone is
// the nastiest answer: the call took effect, and the caller cannot know.
func (s *Store) Inject(f func(Call) Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inject = f
}

// Settle returns when all late calls have taken effect; their channels are closed.
func (s *Store) Settle() { s.late.Wait() }

func (s *Store) call(ctx context.Context, op, name string, do func() error) error {
	if err := s.checkCall(ctx, op, name); err != nil {
		return err
	}
	v := s.ask(op, name)
	if v.Wait != nil {
		select {
		case <-v.Wait:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	switch {
	case v.Lost:
		return v.Err
	case v.Late != nil:
		s.late.Go(func() {
			<-v.Late
			_ = s.locked(do)
		})
		return v.Err
	}
	if err := s.locked(do); v.Err == nil {
		return err
	}
	return v.Err
}

func (s *Store) checkCall(ctx context.Context, op, name string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if op == "list" || op == "lock" {
		return nil
	}
	return checkpoint.CheckName(name)
}

func (s *Store) ask(op, name string) Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ops++
	if s.inject == nil {
		return Verdict{}
	}
	return s.inject(Call{N: s.ops, Op: op, Name: name})
}

func (s *Store) locked(do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return do()
}
