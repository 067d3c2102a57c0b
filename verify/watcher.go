package verify

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkaconn"
)

// Watcher reads a topic with read_committed while a job writes to it, and remembers
// everything it ever saw: all of that has to be in the topic in the end, once, at the
// same place. Make it with [Watch].
type Watcher struct {
	topic  string
	cl     *kgo.Client
	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	hash   hasher
	seen   []map[int64]uint64 // by partition, offset to row
	rows   int64
	faults []Finding
}

// Watch begins to read a topic from its beginning. Stop ends it.
func Watch(ctx context.Context, conn kafkaconn.Config, topic string) (*Watcher, error) {
	cl, err := conn.NewClient(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &Watcher{topic: topic, cl: cl, cancel: cancel, done: make(chan struct{})}
	go w.run(ctx)
	return w, nil
}

// run polls until the end. Errors pass: brokers are being mistreated while it reads,
// and what it misses for good is noticed by Compare.
func (w *Watcher) run(ctx context.Context) {
	defer close(w.done)
	for ctx.Err() == nil {
		w.cl.PollFetches(ctx).EachRecord(w.take)
	}
}

func (w *Watcher) take(r *kgo.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for int(r.Partition) >= len(w.seen) {
		w.seen = append(w.seen, map[int64]uint64{})
	}
	h := w.hash.row(r.Key, r.Value, kafkaconn.StreamHeaders(r.Headers))
	if _, twice := w.seen[r.Partition][r.Offset]; twice {
		w.fault(r, "the watcher got the offset twice")
	}
	w.seen[r.Partition][r.Offset] = h
	w.rows++
}

func (w *Watcher) fault(r *kgo.Record, why string) {
	w.faults = append(w.faults, Finding{Kind: Unread, Topic: w.topic, Partition: r.Partition, Offset: r.Offset, Key: string(r.Key), Why: why})
}

// Rows returns how many rows it has seen so far.
func (w *Watcher) Rows() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rows
}

// Stop ends the reading.
func (w *Watcher) Stop() {
	w.cancel()
	<-w.done
	w.cl.Close()
}

// Compare reads the topic and returns what does not agree with what the watcher saw:
// rows that vanished, changed, or were visible to the watcher alone; and rows before
// the last one it saw in a partition that it did not get. It may be called after
// Stop.
func (w *Watcher) Compare(ctx context.Context, conn kafkaconn.Config) ([]Finding, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := append([]Finding(nil), w.faults...)
	left := make([]map[int64]uint64, len(w.seen))
	last := make([]int64, len(w.seen))
	for p, m := range w.seen {
		left[p] = map[int64]uint64{}
		for o, h := range m {
			left[p][o] = h
			last[p] = max(last[p], o)
		}
	}
	_, err := ReadTopic(ctx, conn, w.topic, func(r *kgo.Record) error {
		if int(r.Partition) >= len(left) || r.Offset > last[r.Partition] {
			return nil
		}
		h, ok := left[r.Partition][r.Offset]
		switch {
		case !ok:
			found = append(found, Finding{Kind: Missing, Topic: w.topic, Partition: r.Partition, Offset: r.Offset, Key: string(r.Key), Why: "the watcher did not get this row, and got later ones"})
		case h != w.hash.row(r.Key, r.Value, kafkaconn.StreamHeaders(r.Headers)):
			found = append(found, Finding{Kind: Altered, Topic: w.topic, Partition: r.Partition, Offset: r.Offset, Key: string(r.Key), Why: "the watcher saw another row here"})
		}
		delete(left[r.Partition], r.Offset)
		return nil
	})
	for p := range left {
		for o := range left[p] {
			found = append(found, Finding{Kind: Altered, Topic: w.topic, Partition: int32(p), Offset: o, Why: "the watcher saw a row here that is not in the topic: it was never committed, or is gone"})
		}
	}
	return found, err
}
