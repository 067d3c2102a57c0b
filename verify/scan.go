package verify

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"etl/stream"
)

// scan reads [from, to) of a partition and calls emit with every record that a
// reader of the isolation level sees, in the order of offsets.
type scan struct {
	c           *cluster
	topic       string
	partition   int32
	from        int64
	to          bounds // stable and end as they were when the scan was planned
	uncommitted bool
	emit        func(*kgo.Record) error

	done  scanned
	queue []held // records not emitted yet, in the order of offsets
	first int    // index in queue of the first that is not emitted
	base  int    // what was removed from queue so far
	open  map[int64][]int
}

// scanned says what a scan came across.
type scanned struct {
	emitted int64
	aborted int64
	hidden  int64 // data that is not aborted and stands behind the last stable offset
	control int64
	holes   int64 // offsets that hold nothing: compaction
	// unmarked records stand before the last stable offset, and their transaction
	// has no control record: compaction took it. They count as committed.
	unmarked int64
	last     int64 // the highest offset that was emitted, -1 for none
	next     int64
}

type fate uint8

const (
	undecided fate = iota
	committed
	abortedFate
)

type held struct {
	rec  *kgo.Record
	fate fate
}

// chunk is the answer to one fetch.
type chunk struct {
	recs []*kgo.Record
	next int64
	err  error
}

// run does the scan. The next fetch is under way while a chunk is worked on.
func (s *scan) run(ctx context.Context) (scanned, error) {
	s.open, s.done.last, s.done.next = map[int64][]int{}, -1, s.from
	ctx, cancel := context.WithCancel(ctx)
	chunks := make(chan chunk, 1)
	go s.fetchAll(ctx, chunks)
	var err error
	for c := range chunks {
		if err != nil {
			continue // until the goroutine has ended
		}
		if err = c.err; err == nil {
			err = s.take(c)
		}
		if err != nil {
			cancel()
		}
	}
	cancel()
	if err == nil {
		err = s.finish()
	}
	return s.done, err
}

func (s *scan) fetchAll(ctx context.Context, chunks chan<- chunk) {
	defer close(chunks)
	for at := s.from; at < s.to.end; {
		recs, next, err := s.c.fetch(ctx, s.topic, s.partition, at)
		select {
		case chunks <- chunk{recs, next, err}:
		case <-ctx.Done():
			chunks <- chunk{err: context.Cause(ctx)}
			return
		}
		if err != nil {
			return
		}
		at = next
	}
}

// take puts the records of a chunk in the queue.
func (s *scan) take(c chunk) error {
	for _, r := range c.recs {
		if r.Offset >= s.to.end {
			break
		}
		if r.Offset < s.done.next {
			return stream.Errorf(stream.Failed, "verify.backwards", "read", partitionName(s.topic, s.partition), "offset %d came after %d", r.Offset, s.done.next-1)
		}
		s.done.holes += r.Offset - s.done.next
		s.done.next = r.Offset + 1
		if err := s.record(r); err != nil {
			return err
		}
	}
	if end := min(c.next, s.to.end); end > s.done.next {
		s.done.holes += end - s.done.next
		s.done.next = end
	}
	return s.release()
}

func (s *scan) record(r *kgo.Record) error {
	switch {
	case r.Attrs.IsControl():
		s.done.control++
		return s.decide(r)
	case s.uncommitted || !r.Attrs.IsTransactional():
		s.queue = append(s.queue, held{r, committed})
	default:
		s.open[r.ProducerID] = append(s.open[r.ProducerID], s.base+len(s.queue))
		s.queue = append(s.queue, held{r, undecided})
	}
	return nil
}

// decide ends the transaction of a producer in this partition.
func (s *scan) decide(r *kgo.Record) error {
	var key kmsg.ControlRecordKey
	if err := key.ReadFrom(r.Key); err != nil {
		return fmt.Errorf("control record %s@%d: %w", partitionName(s.topic, s.partition), r.Offset, err)
	}
	f := committed
	switch key.Type {
	case kmsg.ControlRecordKeyTypeAbort:
		f = abortedFate
	case kmsg.ControlRecordKeyTypeCommit:
	default:
		return nil // not about a transaction
	}
	for _, i := range s.open[r.ProducerID] {
		s.queue[i-s.base].fate = f
	}
	delete(s.open, r.ProducerID)
	return nil
}

// release emits from the front of the queue what is decided.
func (s *scan) release() error {
	for s.first < len(s.queue) && s.queue[s.first].fate != undecided {
		h := &s.queue[s.first]
		if err := s.settle(h.rec, h.fate); err != nil {
			return err
		}
		h.rec = nil
		s.first++
	}
	if s.first > len(s.queue)/2 {
		s.base += s.first
		s.queue = append(s.queue[:0], s.queue[s.first:]...)
		s.first = 0
	}
	return nil
}

func (s *scan) settle(r *kgo.Record, f fate) error {
	switch {
	case f == abortedFate:
		s.done.aborted++
		return nil
	case r.Offset >= s.to.stable && !s.uncommitted:
		s.done.hidden++
		return nil
	}
	s.done.emitted++
	s.done.last = r.Offset
	return s.emit(r)
}

// finish settles what no control record decided: behind the last stable offset it
// is open; before it the brokers know that it was decided, and have dropped the
// control record, which they do only with those of committed data.
func (s *scan) finish() error {
	for ; s.first < len(s.queue); s.first++ {
		h := &s.queue[s.first]
		if h.fate == undecided && h.rec.Offset < s.to.stable {
			s.done.unmarked++
		}
		if h.fate == undecided {
			h.fate = committed
		}
		if err := s.settle(h.rec, h.fate); err != nil {
			return err
		}
	}
	return nil
}
