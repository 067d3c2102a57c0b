package stream

import "sync"

// chunkSize is the size of an arena chunk: large enough that a batch of 512
// small records needs one, small enough that an idle batch wastes little.
const chunkSize = 64 << 10

var chunks = sync.Pool{New: func() any { b := make([]byte, chunkSize); return &b }}

// arena hands out bytes that are returned together.
type arena struct {
	cur  []byte // the rest of the chunk in use
	full []*[]byte
}

// alloc returns n bytes; never nil, for a nil slice means null.
func (a *arena) alloc(n int) []byte {
	if n == 0 {
		return []byte{}
	}
	if n > len(a.cur) {
		if n > chunkSize/4 {
			return make([]byte, n) // its own allocation, left to the collector
		}
		c := chunks.Get().(*[]byte)
		a.full = append(a.full, c)
		a.cur = *c
	}
	p := a.cur[:n:n]
	a.cur = a.cur[n:]
	return p
}

// reset returns all chunks to the pool; what alloc returned is invalid then.
func (a *arena) reset() {
	for i, c := range a.full {
		chunks.Put(c)
		a.full[i] = nil
	}
	a.full, a.cur = a.full[:0], nil
}
