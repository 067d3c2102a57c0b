package kafka

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"etl/internal/kafkaconn"
	"etl/stream"
)

// How often the watcher looks: a bounded read may be waiting for it.
const (
	lookBounded   = time.Second
	lookUnbounded = 10 * time.Second
	// probeBytes bounds one raw fetch, probes how many in a row.
	probeBytes = 1 << 20
	probes     = 16
)

// Stall is a partition that has records and makes no progress.
type Stall struct {
	Topic      string
	Partition  int32
	NextOffset int64
	// End is up to where it could be read, Since how long the position has stood.
	End   int64
	Since time.Duration
}

// watcher looks after partitions that make no progress, on a goroutine of its own.
// They may have nothing to read; or only what no client shows, and then it finds
// out by a raw fetch and tells the reader; or something is wrong, and it says so.
type watcher struct {
	r      *Reader
	adm    *kadm.Client
	ctx    context.Context
	cancel context.CancelFunc
	busy   sync.WaitGroup
	last   map[tp]*standing // where each partition stood at the last look
	// silence is since when the brokers have not answered, zero when they have.
	silence time.Time
	warned  bool
}

type standing struct {
	at       int64
	since    time.Time
	reported bool
}

func (w *watcher) init(r *Reader) {
	w.r, w.last = r, map[tp]*standing{}
	w.ctx, w.cancel = context.WithCancel(context.Background())
}

func (w *watcher) start() {
	w.adm = kadm.NewClient(w.r.cl)
	every := lookUnbounded
	if w.r.cfg.Bounded() {
		every = lookBounded
	}
	w.busy.Go(func() {
		tick := w.r.env.Clock.Ticker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C():
				w.look(every)
			case <-w.ctx.Done():
				return
			}
		}
	})
}

func (w *watcher) stop() {
	if w.cancel != nil {
		w.cancel()
		w.busy.Wait()
	}
}

// look is one round.
func (w *watcher) look(every time.Duration) {
	standing := w.stand(every)
	if len(standing) == 0 {
		return
	}
	ends, err := w.ends(standing)
	if err != nil {
		w.unanswered(err)
		return
	}
	w.silence = time.Time{}
	for i := range standing {
		s := &standing[i]
		end, err := at(ends, of(s))
		if err != nil {
			continue
		}
		w.r.sawEnd(of(s), end)
		if s.End != stream.Unbounded {
			end = min(end, s.End)
		}
		if s.NextOffset >= end {
			w.last[of(s)].since = w.r.env.Clock.Now() // it has nothing to read
			continue
		}
		if !w.skip(s, end) {
			w.report(s, end)
		}
	}
}

// unanswered is for brokers that do not tell. The client goes on trying for ever,
// whatever the reason; one that cannot pass by itself ends the attempt.
func (w *watcher) unanswered(err error) {
	now := w.r.env.Clock.Now()
	err = kafkaconn.Explain(err, "list offsets", access(w.r.cfg.Topics)...)
	switch {
	case w.ctx.Err() != nil:
	case stream.ClassOf(err) == stream.Environment:
		w.r.mu.Lock()
		w.r.failed = err
		w.r.mu.Unlock()
		w.r.Wake()
	case w.silence.IsZero():
		w.silence, w.warned = now, false
	case now.Sub(w.silence) >= w.r.cfg.StallAfter && !w.warned:
		w.warned = true
		w.r.env.Log.Warn("source: the brokers do not answer", "component", string(w.r.env.UID), "subtask", w.r.env.Subtask,
			"since", now.Sub(w.silence), "error", err)
	}
}

// stand returns the splits that stood still since the last look although the task
// has asked for more: a task that is held up by its sinks is no stall.
func (w *watcher) stand(every time.Duration) (out []stream.Split) {
	r, now := w.r, w.r.env.Clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	hungry := r.cancel != nil || now.Sub(r.asked) <= every
	for _, p := range r.sorted {
		l := w.last[of(&p.split)]
		switch {
		case l == nil || l.at != p.split.NextOffset || p.queued || !hungry:
			w.last[of(&p.split)] = &standing{at: p.split.NextOffset, since: now}
		case !p.split.Finished():
			out = append(out, p.split)
		}
	}
	return out
}

func (w *watcher) ends(splits []stream.Split) (kadm.ListedOffsets, error) {
	var topics []string
	for i := range splits {
		if i == 0 || splits[i].Topic != splits[i-1].Topic {
			topics = append(topics, splits[i].Topic)
		}
	}
	list := w.adm.ListCommittedOffsets
	if w.r.cfg.Isolation == ReadUncommitted {
		list = w.adm.ListEndOffsets
	}
	ends, err := list(w.ctx, topics...)
	if len(ends) > 0 {
		err = nil // each partition has its own
	}
	return ends, err
}

func (r *Reader) sawEnd(p tp, end int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parts[p].end = end
}

// skip tells the reader about a stretch without anything to read.
func (w *watcher) skip(s *stream.Split, end int64) bool {
	h, err := w.probe(s, end)
	if err != nil {
		w.r.env.Log.Debug("source: the watcher could not look at a partition", "split", s.String(), "error", err)
	}
	if err != nil || h.to <= h.from {
		return false
	}
	w.r.mu.Lock()
	w.r.holes = append(w.r.holes, h)
	w.r.mu.Unlock()
	w.r.Wake()
	return true
}

// report says that a partition is stuck, once.
func (w *watcher) report(s *stream.Split, end int64) {
	l := w.last[of(s)]
	since := w.r.env.Clock.Now().Sub(l.since)
	if l.reported || since < w.r.cfg.StallAfter {
		return
	}
	l.reported = true
	w.r.env.Log.Warn("source: a partition has records and makes no progress", "component", string(w.r.env.UID), "subtask", w.r.env.Subtask,
		"topic", s.Topic, "partition", s.Partition, "next_offset", s.NextOffset, "end", end, "since", since)
	if w.r.cfg.OnStall != nil {
		w.r.cfg.OnStall(w.r.env.Task(), Stall{Topic: s.Topic, Partition: s.Partition, NextOffset: s.NextOffset, End: end, Since: since})
	}
}

// probe fetches raw from a position on, as long as there is nothing in what comes.
func (w *watcher) probe(s *stream.Split, end int64) (hole, error) {
	h := hole{tp: of(s), from: s.NextOffset, to: s.NextOffset, epoch: s.LeaderEpoch}
	for range probes {
		if h.to >= end {
			break
		}
		rp, err := w.rawFetch(s, h.to)
		if err != nil {
			return h, err
		}
		to, epoch, empty := judge(w.r.options(s, h.to), rp)
		if !empty || to == h.to {
			break
		}
		h.to, h.epoch = to, epoch
	}
	return h, nil
}

func (r *Reader) options(s *stream.Split, at int64) kgo.ProcessFetchPartitionOpts {
	o := kgo.ProcessFetchPartitionOpts{KeepControlRecords: true, Offset: at, IsolationLevel: kgo.ReadCommitted(), Topic: s.Topic, Partition: s.Partition}
	if r.cfg.Isolation == ReadUncommitted {
		o.IsolationLevel = kgo.ReadUncommitted()
	}
	return o
}

// judge reads one answer: where reading may go on, the leader epoch before that
// place, and whether nothing lies before it.
//
// An answer without any bytes although the log goes on means that compaction left
// nothing at all: the broker reads up to the end that it reports, and returns at
// least one whole batch when there is one (KIP-74).
func judge(o kgo.ProcessFetchPartitionOpts, rp *kmsg.FetchResponseTopicPartition) (to int64, epoch int32, empty bool) {
	at := o.Offset
	fp, next := kgo.ProcessFetchPartition(o, rp, kgo.DefaultDecompressor(), nil)
	if fp.Err != nil || len(fp.Records) > 0 {
		return at, -1, false
	}
	if len(rp.RecordBatches) > 0 {
		return next, lastEpoch(rp.RecordBatches), true
	}
	end := rp.LastStableOffset
	if o.IsolationLevel == kgo.ReadUncommitted() || end < 0 {
		end = rp.HighWatermark
	}
	return max(at, end), -1, true
}

// lastEpoch returns the leader epoch of the last whole batch (record batch format
// version 2: first offset 8 bytes, length 4, leader epoch 4, magic 1).
func lastEpoch(b []byte) int32 {
	epoch := int32(-1)
	for len(b) > 17 && b[16] == 2 {
		size := int(int32(binary.BigEndian.Uint32(b[8:]))) + 12
		if size < 17 || size > len(b) {
			break
		}
		epoch = int32(binary.BigEndian.Uint32(b[12:]))
		b = b[size:]
	}
	return epoch
}

// rawFetch asks the leader for what lies at an offset.
func (w *watcher) rawFetch(s *stream.Split, offset int64) (*kmsg.FetchResponseTopicPartition, error) {
	leader, _, err := w.r.cl.PartitionLeader(s.Topic, s.Partition)
	if err != nil {
		return nil, err
	}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 100, 1, probeBytes
	if w.r.cfg.Isolation == ReadCommitted {
		req.IsolationLevel = 1
	}
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = s.Topic, s.TopicID
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = s.Partition, offset, probeBytes
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	answer, err := w.r.cl.Broker(int(leader)).Request(w.ctx, req)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, fmt.Errorf("the broker answered for %d topics", len(resp.Topics)) // a throttled client gets none
	}
	rp := &resp.Topics[0].Partitions[0]
	if rp.PreferredReadReplica >= 0 {
		return nil, fmt.Errorf("the broker sends readers to broker %d", rp.PreferredReadReplica)
	}
	return rp, kerr.ErrorForCode(rp.ErrorCode)
}
