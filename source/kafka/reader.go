package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/fault"
	"etl/internal/kafkaconn"
	"etl/source"
	"etl/stream"
)

// Reader reads the splits of one subtask. See source.Reader.
type Reader struct {
	cfg   Config
	env   source.Env
	cl    *kgo.Client // nil while there is nothing to read
	pool  kafkaconn.Records
	watch watcher

	// The task goroutine's own.
	parts  map[tp]*part
	sorted []*part
	queue  []run // fetched and not handed out
	polled bool
	ended  bool // EndOfInput was returned

	mu     sync.Mutex // guards what follows, and every part
	woken  bool
	cancel context.CancelFunc // of the fetch that is waited for
	asked  time.Time          // when the client was asked last
	holes  []hole
	failed error // what the watcher found, and Poll returns
}

// part is a split and what is known about it.
type part struct {
	split stream.Split
	// end is up to where it could be read when that was seen last.
	end int64
	// stamp is the timestamp of the last record that was handed out, -1 for none.
	stamp int64
	// queued says that fetched records wait to be handed out.
	queued bool
}

// run is what one fetch brought of one partition.
type run struct {
	part    *part
	records []*kgo.Record
}

// hole says that there is nothing to read in [from, to), and the leader epoch of
// what was there, -1 for unknown.
type hole struct {
	tp       tp
	from, to int64
	epoch    int32
}

var _ source.Reader = (*Reader)(nil)

// NewReader returns a reader of a source; cfg has no Problems.
func NewReader(cfg Config) *Reader {
	return &Reader{cfg: cfg.WithDefaults(), parts: map[tp]*part{}}
}

// Open takes the splits. Nothing is fetched before the first Poll asks for it, but
// the client begins to connect.
func (r *Reader) Open(_ context.Context, env source.Env, splits []stream.Split) error {
	r.env = env
	r.watch.init(r)
	if r.cfg.OnOpen != nil {
		r.cfg.OnOpen(env.Task(), r.Lag)
	}
	return r.Assign(splits)
}

// Assign adds splits, between Polls.
func (r *Reader) Assign(add []stream.Split) error {
	offsets := map[string]map[int32]kgo.Offset{}
	r.mu.Lock()
	for _, s := range add {
		if r.parts[of(&s)] != nil {
			r.mu.Unlock()
			return fmt.Errorf("split %s is assigned twice", &s)
		}
		p := &part{split: s, end: s.NextOffset, stamp: -1}
		r.parts[of(&s)] = p
		r.sorted = append(r.sorted, p)
		if s.Finished() {
			continue
		}
		if offsets[s.Topic] == nil {
			offsets[s.Topic] = map[int32]kgo.Offset{}
		}
		offsets[s.Topic][s.Partition] = kgo.NewOffset().At(s.NextOffset).WithEpoch(s.LeaderEpoch)
		r.ended = false
	}
	slices.SortFunc(r.sorted, func(a, b *part) int { return stream.CompareSplits(a.split, b.split) })
	r.mu.Unlock()
	if len(offsets) == 0 {
		return nil
	}
	return r.consume(offsets)
}

// fetchMaxWait is how long a fetch waits for records. A partition that is assigned
// while it waits is not part of it, so it is not kgo's 5s.
const fetchMaxWait = 500 * time.Millisecond

func (r *Reader) consume(offsets map[string]map[int32]kgo.Offset) (err error) {
	if r.cl != nil {
		r.cl.AddConsumePartitions(offsets)
		return nil
	}
	isolation := kgo.ReadCommitted()
	if r.cfg.Isolation == ReadUncommitted {
		isolation = kgo.ReadUncommitted()
	}
	r.cl, err = newClient(&r.cfg, &r.env.Env,
		kgo.ConsumePartitions(offsets),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchIsolationLevel(isolation),
		kgo.KeepControlRecords(),
		kgo.FetchMaxWait(fetchMaxWait),
		kgo.FetchMaxBytes(r.cfg.FetchMaxBytes),
		kgo.FetchMaxPartitionBytes(r.cfg.FetchMaxPartitionBytes),
		kgo.WithPools(&r.pool),
	)
	if err == nil {
		r.watch.start()
	}
	return err
}

// Splits returns the positions after everything that Poll has returned (B2).
func (r *Reader) Splits() []stream.Split {
	out := make([]stream.Split, len(r.sorted))
	for i, p := range r.sorted {
		out[i] = p.split
	}
	fault.Point("source.positions_taken")
	return out
}

// Wake makes the running, or else the next, Poll return soon.
func (r *Reader) Wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.woken = true
	if r.cancel != nil {
		r.cancel()
	}
}

// Close ends the client and its goroutines. Batches that are still on their way
// stay valid.
func (r *Reader) Close() error {
	r.watch.stop()
	for _, q := range r.queue {
		recycle(q.records)
	}
	r.queue = nil
	if r.cl != nil {
		r.cl.Close()
	}
	return nil
}

func recycle(records []*kgo.Record) {
	for _, rec := range records {
		rec.Recycle()
	}
}

// Lag is how far behind a partition is.
type Lag struct {
	Topic     string
	Partition int32
	// NextOffset is the position, End up to where the partition could be read when
	// that was seen last, Records the offsets between: at least the records.
	NextOffset, End, Records int64
	// Timestamp is that of the last record read, in ms since 1970; -1 for none.
	Timestamp int64
}

// Lag returns how far behind each partition is. Any goroutine.
func (r *Reader) Lag() []Lag {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Lag, len(r.sorted))
	for i, p := range r.sorted {
		s := &p.split
		out[i] = Lag{Topic: s.Topic, Partition: s.Partition, NextOffset: s.NextOffset, End: p.end, Records: max(p.end-s.NextOffset, 0), Timestamp: p.stamp}
	}
	return out
}

// finished reports whether everything there is has been read.
func (r *Reader) finished() bool {
	for _, p := range r.sorted {
		if !p.split.Finished() {
			return false
		}
	}
	return r.cfg.Bounded()
}

var errClosed = errors.New("the reader's client is closed")
