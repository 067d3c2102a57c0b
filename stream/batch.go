package stream

import (
	"sync"
	"sync/atomic"
)

// Port is an input of an operator, counted from 0 in the order of its inputs.
type Port int

// Tag names a side output of a component, such as "late" or a user's own.
type Tag string

// Batch is a run of records that came over one split or one edge, all before or
// all after any given barrier (I1). It is counted: see the
// package comment on ownership.
type Batch struct {
	Records []Record
	Port    Port
	Schema  *Schema

	refs   atomic.Int32
	origin any
	parent *Batch
	free   func(*Batch)
	arena  arena
}

var batches = sync.Pool{New: func() any { return new(Batch) }}

// NewBatch returns an empty batch with one reference.
func NewBatch(schema *Schema) *Batch {
	b := batches.Get().(*Batch)
	b.Schema = schema
	b.refs.Store(1)
	return b
}

// NewOriginBatch returns an empty batch of a reader, whose records lie in
// origin; free is called once at the last release, on whichever goroutine makes it,
// and gets origin's batch.
func NewOriginBatch(schema *Schema, origin any, free func(*Batch)) *Batch {
	b := NewBatch(schema)
	b.origin, b.free = origin, free
	return b
}

// Derive returns an empty batch whose records may point into b: b lives at
// least as long as the result. Records copied from b keep their Pos, because
// the result has b's origin.
func (b *Batch) Derive(schema *Schema) *Batch {
	d := NewBatch(schema)
	b.Retain()
	d.parent, d.origin, d.Port = b, b.origin, b.Port
	return d
}

// Origin returns the reader's own batch, so that a pass-through sink can reuse
// its records without copying; nil when the bytes are the engine's.
func (b *Batch) Origin() any { return b.origin }

// Retain adds a reference.
func (b *Batch) Retain() {
	if b.refs.Add(1) <= 1 {
		panic("stream: batch retained after its last release")
	}
}

// Release gives up a reference; the last one returns all memory.
func (b *Batch) Release() {
	switch n := b.refs.Add(-1); {
	case n > 0:
		return
	case n < 0:
		panic("stream: batch released more often than retained")
	}
	free, parent := b.free, b.parent
	if free != nil {
		free(b)
	}
	clear(b.Records)
	b.arena.reset()
	*b = Batch{Records: b.Records[:0], arena: b.arena}
	batches.Put(b)
	if parent != nil {
		parent.Release()
	}
}

// Append adds a record.
func (b *Batch) Append(r Record) { b.Records = append(b.Records, r) }

// Alloc returns n bytes that live as long as the batch.
func (b *Batch) Alloc(n int) []byte { return b.arena.alloc(n) }

// Copy returns a copy of p that lives as long as the batch; null stays null.
func (b *Batch) Copy(p []byte) []byte {
	if p == nil {
		return nil
	}
	q := b.arena.alloc(len(p))
	copy(q, p)
	return q
}

// AppendCopy adds a record whose bytes are copied into the batch, so that the
// result shares no pointer with r's batch. Doc, Pos and Orig are dropped.
func (b *Batch) AppendCopy(r *Record) {
	b.Records = append(b.Records, b.copied(r))
}

// AppendWhole is AppendCopy that copies Orig as well.
func (b *Batch) AppendWhole(r *Record) {
	c := b.copied(r)
	if r.Orig != nil {
		o := b.copied(r.Orig)
		c.Orig, c.Made = &o, r.Made
	}
	b.Records = append(b.Records, c)
}

func (b *Batch) copied(r *Record) Record {
	c := *r
	c.Key, c.Value, c.Group = b.Copy(r.Key), b.Copy(r.Value), b.Copy(r.Group)
	c.Doc, c.Pos, c.Orig, c.Made = nil, -1, nil, r.Made || r.Orig != nil
	if len(r.Headers) > 0 {
		c.Headers = make([]Header, len(r.Headers))
		for i, h := range r.Headers {
			c.Headers[i] = Header{Key: h.Key, Value: b.Copy(h.Value)}
		}
	}
	return c
}

// Bytes returns the size of keys and values, for credits and metrics.
func (b *Batch) Bytes() (n int) {
	for i := range b.Records {
		n += len(b.Records[i].Key) + len(b.Records[i].Value)
	}
	return n
}
