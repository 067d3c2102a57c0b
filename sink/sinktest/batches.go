package sinktest

import (
	"sync"

	"etl/stream"
)

// batches hands out batches as a reader's: their bytes are spoiled at the last release,
// so that a sink that reads them later shows nonsense.
type batches struct {
	mu   sync.Mutex
	open int // given to the sink and not released
}

func (bs *batches) make() *stream.Batch {
	var given bool
	return stream.NewOriginBatch(&stream.Schema{Format: stream.Text}, &given, func(b *stream.Batch) {
		spoil(b)
		if given {
			bs.mu.Lock()
			bs.open--
			bs.mu.Unlock()
		}
	})
}

// own notes that a batch goes to the sink.
func (bs *batches) own(b *stream.Batch) {
	*b.Origin().(*bool) = true
	bs.mu.Lock()
	bs.open++
	bs.mu.Unlock()
}

func (bs *batches) left() int {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	return bs.open
}

func spoil(b *stream.Batch) {
	for i := range b.Records {
		for _, bytes := range [][]byte{b.Records[i].Key, b.Records[i].Value, b.Records[i].Group} {
			for k := range bytes {
				bytes[k] = '!'
			}
		}
	}
}

// rejects collects the rows that the writers of a process have rejected.
type rejects struct {
	mu   sync.Mutex
	rows []reject
}

type reject struct {
	epoch stream.CheckpointID
	row   int
}

// into returns an output whose rejects belong to an epoch.
func (rs *rejects) into(epoch stream.CheckpointID) rejectTo { return rejectTo{rs, epoch} }

type rejectTo struct {
	rs    *rejects
	epoch stream.CheckpointID
}

// Reject implements sink.Output.
func (o rejectTo) Reject(r stream.Record, _ error) {
	o.rs.mu.Lock()
	defer o.rs.mu.Unlock()
	o.rs.rows = append(o.rs.rows, reject{o.epoch, int(r.Offset)})
}

// upTo takes the rows rejected in epochs up to id: a published checkpoint holds them.
func (rs *rejects) upTo(id stream.CheckpointID) (rows []int) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	var rest []reject
	for _, r := range rs.rows {
		if r.epoch <= id {
			rows = append(rows, r.row)
		} else {
			rest = append(rest, r)
		}
	}
	rs.rows = rest
	return rows
}
