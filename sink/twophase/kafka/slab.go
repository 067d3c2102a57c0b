package kafka

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/stream"
)

// slab is the records made for one batch whose bytes they share. It is the Context of
// each, which is how a promise finds it; with the last one both go back.
//
// left is a plain number: all records of a slab go through one producer, whose promises
// are serial.
type slab struct {
	context.Context
	recs  []kgo.Record
	left  int
	batch *stream.Batch
}

var slabs = sync.Pool{New: func() any { return &slab{Context: context.Background()} }}

// newSlab returns a slab for at most n records of b, whose reference it takes over.
func newSlab(b *stream.Batch, n int) *slab {
	s := slabs.Get().(*slab)
	if cap(s.recs) < n {
		s.recs = make([]kgo.Record, 0, max(n, 512))
	}
	s.batch = b
	return s
}

// next returns an empty record.
func (s *slab) next() *kgo.Record {
	s.recs = s.recs[:len(s.recs)+1]
	s.left++
	r := &s.recs[len(s.recs)-1]
	r.Context = s
	return r
}

// drop gives back the record that next returned last.
func (s *slab) drop() {
	s.recs[len(s.recs)-1] = kgo.Record{}
	s.recs = s.recs[:len(s.recs)-1]
	s.left--
}

// done gives back one record, and with the last one everything.
func (s *slab) done(r *kgo.Record) {
	*r = kgo.Record{}
	if s.left--; s.left == 0 {
		s.free()
	}
}

func (s *slab) free() {
	b := s.batch
	s.batch, s.recs = nil, s.recs[:0]
	slabs.Put(s)
	b.Release()
}
