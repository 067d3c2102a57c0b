package keyed

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

const (
	hugePage  = 2 << 20
	segSize   = 4 << 20 // the unit in which a store takes memory
	chunkSize = 1 << 20 // the unit in which changes are copied out

	// DefaultBudget is the memory of all keyed caches of a process together.
	DefaultBudget = 256 << 20
)

// Budget is the memory of the keyed caches of one process: they share one
// budget. What is copied out for snapshots comes on top of it for as long as the
// snapshot lives. Safe for concurrent use.
type Budget struct {
	limit int64
	// used counts segments and indexes; unapplied the entries that may not leave
	// memory because the base does not have them yet.
	used, unapplied, stores atomic.Int64

	mu     sync.Mutex
	spare  [][]byte // chunks for reuse
	frames [][]byte // frame buffers for reuse
}

// NewBudget returns a budget of limit bytes; 0 means DefaultBudget. A store works
// in segments of 4 MiB: below 16 MiB for each store, entries leave memory as soon
// as they may.
func NewBudget(limit int64) *Budget {
	if limit == 0 {
		limit = DefaultBudget
	}
	return &Budget{limit: limit}
}

// Limit and Used return the budget and what caches take of it now, in bytes.
func (m *Budget) Limit() int64 { return m.limit }

// Used returns the memory of all caches in bytes.
func (m *Budget) Used() int64 { return m.used.Load() }

// Unapplied returns the size of the entries that may not leave memory because no
// base has them, in bytes.
func (m *Budget) Unapplied() int64 { return m.unapplied.Load() }

// block is memory for entries or index tables: a mapping of its own, or, where
// the system gives none, a slice of the Go heap, which has no pointers in it.
type block struct {
	p    unsafe.Pointer
	n    int
	heap []uint64
}

func (m *Budget) block(n int) block {
	n = (n + hugePage - 1) &^ (hugePage - 1)
	m.used.Add(int64(n))
	if p := mapping(n); p != nil {
		return block{p: p, n: n}
	}
	h := make([]uint64, n/8)
	return block{p: unsafe.Pointer(&h[0]), n: n, heap: h}
}

func (m *Budget) release(b block) {
	m.used.Add(-int64(b.n))
	if b.heap == nil {
		unmap(b.p, b.n)
	}
}

// chunk returns an empty buffer of chunkSize, or of n if that is more.
func (m *Budget) chunk(n int) []byte {
	if n > chunkSize {
		return make([]byte, 0, n)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := len(m.spare); l > 0 {
		c := m.spare[l-1]
		m.spare = m.spare[:l-1]
		return c
	}
	return make([]byte, 0, chunkSize)
}

// recycle takes chunks back. It keeps no more than an eighth of the budget, so
// that one large snapshot does not hold its memory for ever.
func (m *Budget) recycle(chunks [][]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range chunks {
		if cap(c) == chunkSize && int64(len(m.spare)) < m.limit/8/chunkSize {
			m.spare = append(m.spare, c[:0])
		}
	}
}

// frame returns a buffer of n bytes for a segment, with any contents.
func (m *Budget) frame(n int) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, f := range m.frames {
		if cap(f) >= n && cap(f) <= 4*n+chunkSize {
			m.frames[i] = m.frames[len(m.frames)-1]
			m.frames = m.frames[:len(m.frames)-1]
			return f[:n]
		}
	}
	return make([]byte, n, n+n/8)
}

// recycleFrame takes a frame back that nobody else holds.
func (m *Budget) recycleFrame(f []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if int64(cap(f)) <= m.limit/8 && len(m.frames) < 8 {
		m.frames = append(m.frames, f)
	}
}
