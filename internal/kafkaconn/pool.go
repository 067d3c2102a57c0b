package kafkaconn

import (
	"math/bits"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Records is a pool of the slices a kgo client decodes records into. The zero
// value is ready; one pool may serve many clients:
//
//	kgo.WithPools(pool)
//
// Slices are kept by size class, so that a client that reads both single records
// and batches of ten thousand does not pay for the largest each time.
type Records struct {
	classes [maxClass + 1]sync.Pool
	boxes   sync.Pool // *[]kgo.Record, so that Put does not allocate a header
}

// maxClass is the log2 of the largest slice kept. Larger ones, which no client of
// ours produces, are left to the collector.
const maxClass = 16

var _ kgo.PoolRecords = (*Records)(nil)

// GetRecords returns an empty slice with room for n records.
func (p *Records) GetRecords(n int) []kgo.Record {
	class := bits.Len(uint(max(n, 1) - 1))
	if class > maxClass {
		return make([]kgo.Record, 0, n)
	}
	box, _ := p.classes[class].Get().(*[]kgo.Record)
	if box == nil {
		return make([]kgo.Record, 0, 1<<class)
	}
	s := (*box)[:0]
	*box = nil
	p.boxes.Put(box)
	return s
}

// PutRecords takes back a slice whose records were all recycled.
func (p *Records) PutRecords(s []kgo.Record) {
	class := bits.Len(uint(cap(s))) - 1 // the class whose every request s can serve
	if class < 0 || class > maxClass {
		return
	}
	box, _ := p.boxes.Get().(*[]kgo.Record)
	if box == nil {
		box = new([]kgo.Record)
	}
	*box = s
	p.classes[class].Put(box)
}
