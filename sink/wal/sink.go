package wal

import (
	"context"
	"sync"

	"etl/sink"
	"etl/stream"
)

// Options are what all targets share. The zero value of a field means its default.
type Options struct {
	// MaxLog bounds the bytes that are published and not delivered; default 1 GiB. Write
	// waits beyond it.
	MaxLog int64
	// MaxEpochs bounds their number, because every checkpoint lists them all; default 500.
	MaxEpochs int
}

// Sink is a target behind its log, as a program plugs it into a pipeline.
type Sink struct {
	target Target
	o      Options

	mu    sync.Mutex
	lives map[stream.Attempt]*life
}

// New returns a sink.
func New(t Target, o Options) *Sink {
	if o.MaxLog == 0 {
		o.MaxLog = 1 << 30
	}
	if o.MaxEpochs == 0 {
		o.MaxEpochs = 500
	}
	return &Sink{target: t, o: o, lives: map[stream.Attempt]*life{}}
}

var _ sink.Connector = (*Sink)(nil)

// NewWriter returns phase one of a subtask.
func (s *Sink) NewWriter() sink.Writer { return &Writer{sink: s} }

// NewCommitter returns phase two.
func (s *Sink) NewCommitter() sink.Committer { return &Committer{sink: s} }

// Features returns what the sink can do.
func (s *Sink) Features() sink.Features { return s.target.Features() }

// life is what the writers and the committer of one attempt share: how full the log is.
type life struct {
	sink *Sink
	refs int

	mu    sync.Mutex
	held  map[place]*held
	moved chan struct{} // closed and replaced when something was delivered
	back  Back          // nil until the committer is open
}

// place is an epoch of a subtask.
type place struct {
	subtask int
	id      stream.CheckpointID
}

type held struct {
	bytes     int64
	published bool
}

// join returns what an attempt shares; give it back with leave.
func (s *Sink) join(a stream.Attempt) *life {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lives[a]
	if l == nil {
		l = &life{sink: s, held: map[place]*held{}, moved: make(chan struct{})}
		s.lives[a] = l
	}
	l.refs++
	return l
}

func (s *Sink) leave(a stream.Attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.lives[a]; l != nil {
		if l.refs--; l.refs == 0 {
			delete(s.lives, a)
		}
	}
}

// sealed counts an epoch that is in the log.
func (l *life) sealed(subtask int, id stream.CheckpointID, bytes int64, published bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[place{subtask, id}] = &held{bytes, published}
}

// published notes that the epochs of a subtask up to id belong to its lane now.
func (l *life) published(subtask int, id stream.CheckpointID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p, h := range l.held {
		if p.subtask == subtask && p.id <= id {
			h.published = true
		}
	}
}

// delivered takes the epochs of a subtask up to id off the log.
func (l *life) delivered(subtask int, id stream.CheckpointID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.held {
		if p.subtask == subtask && p.id <= id {
			delete(l.held, p)
		}
	}
	close(l.moved)
	l.moved = make(chan struct{})
}

// wait returns when the log has room beside open bytes that are not in it yet, or when
// nothing in it would go away by itself: what is not published yet waits for a barrier,
// which may wait behind the caller.
func (l *life) wait(ctx context.Context, open int64) error {
	for {
		l.mu.Lock()
		total, published := open, 0
		for _, h := range l.held {
			total += h.bytes
			if h.published {
				published++
			}
		}
		moved := l.moved
		l.mu.Unlock()
		if published == 0 || total <= l.sink.o.MaxLog && published <= l.sink.o.MaxEpochs {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// opened and retired connect the writers' news with the target.
func (l *life) opened(b Back) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.back = b
}

func (l *life) retired(subtask int, id stream.CheckpointID) {
	l.mu.Lock()
	b := l.back
	l.mu.Unlock()
	if b != nil {
		b.Retired(subtask, id)
	}
}
