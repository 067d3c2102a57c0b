package kafkaconn

import (
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Fetched is the origin of a batch of fetched records: the i-th record of the
// engine's batch with Pos == i is Records[i]. A reader makes it with [NewFetched],
// hands it over with stream.NewOriginBatch, and calls [Fetched.Recycle] from the
// batch's free function.
//
// A nil entry was taken by a sink. Nobody but [Fetched.Take] may change Records.
type Fetched struct {
	Records []*kgo.Record
	taker   atomic.Pointer[Taker]
}

// Taker is the identity of a sink subtask that takes records out. It has no use
// but its address.
type Taker struct{ _ byte }

var fetcheds = sync.Pool{New: func() any { return new(Fetched) }}

// NewFetched returns the origin of a batch made of records. It keeps the slice.
func NewFetched(records []*kgo.Record) *Fetched {
	f := fetcheds.Get().(*Fetched)
	f.Records = records
	return f
}

// Claim reports whether t may take records: the first one to ask may, all others
// copy. One batch can reach several sinks, on several goroutines, and a record
// can be produced as it is only once. The caller holds a reference to the batch.
func (f *Fetched) Claim(t *Taker) bool {
	return f.taker.Load() == t || f.taker.CompareAndSwap(nil, t)
}

// Take returns record pos, to be recycled by the caller with its own Recycle; nil
// when it was taken before (an operator may emit one record twice). Only the
// claimant may call it.
func (f *Fetched) Take(pos int32) *kgo.Record {
	r := f.Records[pos]
	f.Records[pos] = nil
	return r
}

// Recycle gives back every record that nobody took, and f itself, which must not
// be used afterwards.
func (f *Fetched) Recycle() {
	for i, r := range f.Records {
		if r != nil {
			r.Recycle()
			f.Records[i] = nil
		}
	}
	f.Records = nil
	f.taker.Store(nil)
	fetcheds.Put(f)
}
