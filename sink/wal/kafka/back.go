package kafka

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/sink"
	"etl/sink/kafkatxn"
	"etl/sink/wal"
	"etl/stream"
)

// back delivers epochs.
type back struct {
	cfg    Config
	env    sink.CommitEnv
	raw    *kafkatxn.Client
	shorts *kafkatxn.Shorts
	limits kafkatxn.TopicLimits
}

// Open connects and tries every right that a delivery needs.
func (b *back) Open(ctx context.Context, env sink.CommitEnv) (err error) {
	b.env = env
	if b.raw, err = b.cfg.open(ctx, env.World, env.Job, env.UID, env.Lineage); err != nil {
		return err
	}
	b.shorts = kafkatxn.NewShorts(b.raw)
	if err := b.raw.Preflight(ctx, 0, env.Attempt); err != nil {
		return err
	}
	return b.limits.Refresh(ctx, b.raw, env.Clock.Now())
}

func (b *back) group(subtask int) string {
	return kafkatxn.Names{Prefix: b.cfg.Prefix, Job: b.env.Job, Sink: b.env.UID, Lineage: b.env.Lineage}.Group(subtask)
}

// Probe looks for the marker. Without one an epoch can be delivered, as long as the marker
// cannot have been forgotten.
func (b *back) Probe(ctx context.Context, e *wal.Entry, _ time.Time) (p sink.Probed, err error) {
	m, err := b.raw.NewestMarker(ctx, b.group(e.Subtask))
	if err != nil {
		return p, err
	}
	p = sink.Probed{Status: sink.Open, Marker: m.Checkpoint, Detail: fmt.Sprintf("%d segments, newest marker %s (%s)", e.Segments(), m.Checkpoint, m.Note)}
	switch {
	case m.Checkpoint >= e.Checkpoint:
		p.Status = sink.Committed
	case m.Checkpoint == stream.NoCheckpoint && m.Note == "" && b.raw.Expired(e.Prepared):
		p.Status = sink.Unknown
		p.Detail += fmt.Sprintf("; one written since %s may have expired", e.Prepared.Format(time.RFC3339))
	}
	return p, nil
}

// Marker returns the newest delivered checkpoint of a lane. A job that has published
// nothing refuses the marker of an earlier life of the same name (I12).
func (b *back) Marker(ctx context.Context, subtask int) (stream.CheckpointID, error) {
	if b.env.Fresh {
		if err := b.raw.Foreign(ctx); err != nil {
			return stream.NoCheckpoint, err
		}
	}
	m, err := b.raw.NewestMarker(ctx, b.group(subtask))
	return m.Checkpoint, err
}

// client are the options of producers.
func (b *back) client(subtask int) []kgo.Opt {
	return []kgo.Opt{kgo.RecordPartitioner(&kafkatxn.Partitioner{First: uint64(subtask)}), kgo.ProducerBatchCompression(codecs[b.cfg.Compression]),
		kgo.ProducerBatchMaxBytesFn(b.limits.BatchBytes), kgo.ProducerLinger(5 * time.Millisecond)}
}

// Deliver writes rows and marker in one short transaction, unless the marker is there.
func (b *back) Deliver(ctx context.Context, e *wal.Entry) (sink.Result, error) {
	return b.shorts.Deliver(ctx, kafkatxn.Short{Subtask: e.Subtask, Checkpoint: e.Checkpoint, Attempt: b.env.Attempt, Since: e.Prepared,
		Client: b.client(e.Subtask), Rows: func(produce func(*kgo.Record) error) error { return rows(ctx, e, produce) }})
}

// rows reads each segment into memory of its own: the producer holds on to it.
func rows(ctx context.Context, e *wal.Entry, produce func(*kgo.Record) error) error {
	return e.EachRow(ctx, func(row []byte) error {
		k, err := readRow(slices.Clone(row))
		if err != nil {
			return stream.Errorf(stream.RestoreRefused, "wal.row", "read segment", fmt.Sprintf("checkpoint %s of %s", e.Checkpoint, e.Lane()), "%w", err)
		}
		return produce(k)
	})
}

// fencePatience bounds a fence; after it the restart strategy decides.
const fencePatience = 2 * time.Minute

// Fence takes every lane over that this or an earlier attempt has used.
func (b *back) Fence(ctx context.Context, _ []stream.Attempt, keep []*wal.Entry) error {
	ctx, cancel := context.WithTimeout(ctx, fencePatience)
	defer cancel()
	lanes, err := b.shorts.Lanes(ctx)
	if err != nil {
		return err
	}
	for sub := range b.cfg.Parallelism {
		lanes = append(lanes, sub)
	}
	for _, e := range keep {
		lanes = append(lanes, e.Subtask)
	}
	slices.Sort(lanes)
	for _, sub := range slices.Compact(lanes) {
		if err := b.fence(ctx, sub); err != nil {
			return err
		}
	}
	return nil
}

func (b *back) fence(ctx context.Context, subtask int) error {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := b.shorts.Fence(ctx, b.env.Attempt, subtask, b.client(subtask))
		if err == nil || stream.ClassOf(err) != stream.Retry || b.env.Clock.Sleep(ctx, wait) != nil {
			return err
		}
	}
}

// Inspect lists deliveries that are under way.
func (b *back) Inspect(ctx context.Context) ([]sink.InDoubt, error) { return b.shorts.Inspect(ctx) }

// Retired has nothing to do: there is one marker, the newest.
func (b *back) Retired(int, stream.CheckpointID) {}

// Close closes the connections.
func (b *back) Close() error {
	if b.raw != nil {
		b.raw.Close()
	}
	return nil
}
