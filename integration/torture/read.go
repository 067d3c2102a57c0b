package torture

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// spot is where a record of a topic lies.
type spot struct {
	topic  string
	part   int32
	offset int64
}

// ends are the ends of the partitions of topics. A broker whose heartbeats were late on a
// busy machine leads nothing for a moment, and is asked again.
func (b *Broker) ends(ctx context.Context, stable bool, topics ...string) (out map[spot]int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, ownerPatience)
	defer cancel()
	for {
		if out, err = b.endsNow(ctx, stable, topics...); !kerr.IsRetriable(err) || pause(ctx, 100*time.Millisecond) != nil {
			return out, err
		}
	}
}

func (b *Broker) endsNow(ctx context.Context, stable bool, topics ...string) (out map[spot]int64, err error) {
	err = b.admin(func(adm *kadm.Client) error {
		list := adm.ListEndOffsets
		if stable {
			list = adm.ListCommittedOffsets
		}
		ends, err := list(ctx, topics...)
		if err == nil {
			err = ends.Error()
		}
		out = map[spot]int64{}
		ends.Each(func(o kadm.ListedOffset) { out[spot{o.Topic, o.Partition, 0}] = o.Offset })
		return err
	})
	return out, err
}

// ReadAll reads all of topics and returns, by topic and partition, what a reader of
// committed records sees up to the last stable offset. What was committed is decided
// here, from the control records.
func (b *Broker) ReadAll(ctx context.Context, topics ...string) (map[string]map[int32][]*kgo.Record, error) {
	stable, err := b.ends(ctx, true, topics...)
	if err != nil {
		return nil, err
	}
	all, err := b.readEverything(ctx, stable, topics)
	if err != nil {
		return nil, err
	}
	out := map[string]map[int32][]*kgo.Record{}
	for s := range stable {
		if out[s.topic] == nil {
			out[s.topic] = map[int32][]*kgo.Record{}
		}
		out[s.topic][s.part] = committed(all[s], stable[s])
	}
	return out, nil
}

// readEverything reads every record below the given ends, control records too.
func (b *Broker) readEverything(ctx context.Context, ends map[spot]int64, topics []string) (map[spot][]*kgo.Record, error) {
	left := map[spot]bool{}
	for s, end := range ends {
		if end > 0 {
			left[s] = true
		}
	}
	cl, err := b.Client(kgo.ConsumeTopics(topics...), kgo.KeepControlRecords(), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	out := map[spot][]*kgo.Record{}
	for len(left) > 0 {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%d partitions were not read to their ends: %w", len(left), ctx.Err())
		}
		fs.EachRecord(func(r *kgo.Record) {
			s := spot{r.Topic, r.Partition, 0}
			if r.Offset >= ends[s]-1 {
				delete(left, s)
			}
			if r.Offset < ends[s] {
				out[s] = append(out[s], r)
			}
		})
	}
	return out, nil
}

// committed leaves out control records, and those of transactions that the control
// records do not call committed.
func committed(all []*kgo.Record, end int64) (out []*kgo.Record) {
	open := map[int64][]int{}
	good := make([]bool, len(all))
	for i, r := range all {
		switch {
		case r.Attrs.IsControl():
			commit := len(r.Key) >= 4 && r.Key[3] == 1 // version, type: 0 aborts, 1 commits
			for _, n := range open[r.ProducerID] {
				good[n] = commit
			}
			delete(open, r.ProducerID)
		case r.Attrs.IsTransactional():
			open[r.ProducerID] = append(open[r.ProducerID], i)
		default:
			good[i] = true
		}
	}
	for i, r := range all {
		if good[i] && r.Offset < end {
			out = append(out, r)
		}
	}
	return out
}

// Watch is a read_committed reader that follows the output while everything
// happens, as any user of it would.
type Watch struct {
	cl     *kgo.Client
	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	saw  map[spot]uint64 // what lay there
	more []spot          // seen again
}

// NewWatch follows topics.
func NewWatch(b *Broker, topics ...string) (*Watch, error) {
	cl, err := b.Client(kgo.ConsumeTopics(topics...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(200*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &Watch{cl: cl, cancel: cancel, done: make(chan struct{}), saw: map[spot]uint64{}}
	go w.follow(ctx)
	return w, nil
}

func (w *Watch) follow(ctx context.Context) {
	defer close(w.done)
	for ctx.Err() == nil {
		fs := w.cl.PollFetches(ctx)
		w.mu.Lock()
		fs.EachRecord(func(r *kgo.Record) {
			s := spot{r.Topic, r.Partition, r.Offset}
			if _, twice := w.saw[s]; twice {
				w.more = append(w.more, s)
			}
			w.saw[s] = digest(r)
		})
		w.mu.Unlock()
	}
}

// Seen is how many records it has seen.
func (w *Watch) Seen() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.saw)
}

// Close ends it and returns what it saw, and the places it saw twice.
func (w *Watch) Close() (map[spot]uint64, []spot) {
	w.cancel()
	<-w.done
	w.cl.Close()
	return w.saw, w.more
}

// digest condenses key, value and headers of a record.
func digest(r *kgo.Record) uint64 {
	h := fnv.New64a()
	part := func(b []byte) {
		fmt.Fprintf(h, "%d:%v:", len(b), b == nil)
		_, _ = h.Write(b)
	}
	part(r.Key)
	part(r.Value)
	for _, x := range r.Headers {
		part([]byte(x.Key))
		part(x.Value)
	}
	return h.Sum64()
}
