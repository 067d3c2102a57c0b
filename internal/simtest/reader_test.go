package simtest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// seen is a record of the output as a reader saw it.
type seen struct {
	partition int32
	offset    int64
	rec       *kgo.Record
}

func (a seen) same(b seen) bool {
	return a.partition == b.partition && a.offset == b.offset && sameRecord(a.rec, b.rec)
}

// sameRecord compares everything a record carries; null is not empty.
func sameRecord(a, b *kgo.Record) bool {
	if !sameBytes(a.Key, b.Key) || !sameBytes(a.Value, b.Value) || !a.Timestamp.Equal(b.Timestamp) || len(a.Headers) != len(b.Headers) {
		return false
	}
	for i := range a.Headers {
		if string(a.Headers[i].Value) == anything && len(b.Headers[i].Value) > 0 && a.Headers[i].Key == b.Headers[i].Key {
			continue
		}
		if a.Headers[i].Key != b.Headers[i].Key || !sameBytes(a.Headers[i].Value, b.Headers[i].Value) {
			return false
		}
	}
	return true
}

func sameBytes(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

// watcher is a read_committed reader that follows the output from the beginning
// to the end.
type watcher struct {
	cl   *kgo.Client
	done sync.WaitGroup

	mu  sync.Mutex
	all map[spot]seen
	bad []string
}

// spot is a place in the output.
type spot struct {
	partition int32
	offset    int64
}

func (s *sim) watch(topic string) *watcher {
	w := &watcher{cl: s.reader(topic), all: map[spot]seen{}}
	w.done.Go(w.run)
	return w
}

// reader returns a client that reads a topic from its beginning, read_committed.
func (s *sim) reader(topic string) *kgo.Client {
	return s.client(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(2*time.Second))
}

func (w *watcher) run() {
	for {
		fs := w.cl.PollFetches(context.Background())
		if fs.IsClientClosed() {
			return
		}
		w.mu.Lock()
		fs.EachRecord(func(r *kgo.Record) { w.saw(seen{r.Partition, r.Offset, r}) })
		w.mu.Unlock()
	}
}

// saw notes a record. A client may read a stretch again when leaders move; then it
// must find the same.
func (w *watcher) saw(row seen) {
	at := spot{row.partition, row.offset}
	if old, ok := w.all[at]; ok && !old.same(row) {
		w.bad = append(w.bad, fmt.Sprintf("%s was %s before", row, old))
	}
	w.all[at] = row
}

// seenAny reports whether a row is visible.
func (w *watcher) seenAny() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.all) > 0
}

// close ends the reader.
func (w *watcher) close() {
	w.cl.Close()
	w.done.Wait()
}

// stableEnds returns the last stable offset of every partition of a topic.
func (s *sim) stableEnds(topic string) map[int32]int64 {
	return s.ends(topic, (*kadm.Client).ListCommittedOffsets)
}

// logEnds returns the end of every partition of a topic.
func (s *sim) logEnds(topic string) map[int32]int64 {
	return s.ends(topic, (*kadm.Client).ListEndOffsets)
}

func (s *sim) ends(topic string, list func(*kadm.Client, context.Context, ...string) (kadm.ListedOffsets, error)) map[int32]int64 {
	cl := s.client()
	defer cl.Close()
	os, err := list(kadm.NewClient(cl), context.Background(), topic)
	if err == nil {
		err = os.Error()
	}
	if err != nil {
		s.t.Fatalf("seed %d: the ends of %s cannot be read: %v", s.seed, topic, err)
	}
	out := map[int32]int64{}
	os.Each(func(o kadm.ListedOffset) { out[o.Partition] = o.Offset })
	return out
}

// readAll reads a topic up to its last stable offsets, read_committed.
func (s *sim) readAll(topic string) map[int32][]seen {
	ends := s.stableEnds(topic)
	cl := s.client(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	out, next := map[int32][]seen{}, map[int32]int64{}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for behind(next, ends) && ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if r.Offset >= ends[r.Partition] {
				return
			}
			next[r.Partition] = r.Offset + 1
			if !r.Attrs.IsControl() {
				out[r.Partition] = append(out[r.Partition], seen{r.Partition, r.Offset, r})
			}
		})
	}
	if ctx.Err() != nil {
		// Aborted records at the end give no record at all: that is not an error.
		s.cov.add("reader/gave up waiting for the last offsets")
	}
	return out
}

func behind(next, ends map[int32]int64) bool {
	for p, end := range ends {
		if next[p] < end {
			return true
		}
	}
	return false
}

func (a seen) String() string {
	return fmt.Sprintf("%d@%d %s=%s", a.partition, a.offset, a.rec.Key, a.rec.Value)
}
