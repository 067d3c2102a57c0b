package kafka

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkaconn"
	"etl/sink/kafkatxn"
	"etl/sink/wal"
	"etl/stream"
)

// front makes rows of records. It asks the brokers only what their topics take, so that a
// row they would refuse is rejected before it is in the log.
type front struct {
	cfg    Config
	env    stream.Env
	raw    *kafkatxn.Client
	room   *wal.Room
	limits kafkatxn.TopicLimits
	check  kafkatxn.Checker
	encode kafkatxn.Encoder
	rec    kgo.Record // as it is checked
	row    []byte
}

// Open connects, and reads the limits of the topics.
func (f *front) Open(ctx context.Context, env stream.Env) (err error) {
	f.env, f.room = env, wal.NewRoom(&env, f.cfg.Memory, f.cfg.SpillDir)
	if f.raw, err = f.cfg.open(ctx, env.World, env.Job, env.UID, env.Lineage); err != nil {
		return err
	}
	if f.cfg.Encode != nil {
		f.encode = f.cfg.Encode()
	}
	return f.limits.Refresh(ctx, f.raw, env.Clock.Now())
}

// refreshPatience is how long a task may wait for what topics take; what was known before
// stays when it is over.
const refreshPatience = 2 * time.Second

// Begin returns an epoch without rows.
func (f *front) Begin() (wal.Epoch, error) {
	now := f.env.Clock.Now()
	ctx, cancel := context.WithTimeout(context.Background(), refreshPatience)
	defer cancel()
	if err := f.limits.Refresh(ctx, f.raw, now); err != nil {
		f.env.Log.Info("settings of topics not refreshed", "err", err)
	}
	f.check = kafkatxn.Checker{Limits: &f.limits, Topics: f.cfg.Topics, Now: now}
	return &epoch{f: f, log: f.room.NewLog()}, nil
}

// Close closes the connections.
func (f *front) Close() error {
	if f.raw != nil {
		f.raw.Close()
	}
	return nil
}

// epoch is the rows between two barriers.
type epoch struct {
	f   *front
	log *wal.Log
}

func (e *epoch) Add(r *stream.Record, b *stream.Batch) (int, error) {
	f := e.f
	row := kafkatxn.Row{Topic: f.cfg.Topics[0], Key: r.Key, Value: r.Value, Headers: r.Headers, Partition: kafkatxn.ByKey}
	if f.encode != nil {
		if err := f.encode(r, b, &row); err != nil {
			return 0, err
		}
	}
	f.rec = kgo.Record{Topic: row.Topic, Key: row.Key, Value: row.Value, Headers: kafkaconn.KafkaHeaders(row.Headers)}
	if err := f.check.Check(&f.rec, r); err != nil {
		return 0, err
	}
	f.row = appendRow(f.row[:0], &row, r.Timestamp)
	return e.log.Add(f.row)
}

func (e *epoch) Rows() int64 { return e.log.Rows() }

// Plan is empty: rows say everything.
func (e *epoch) Plan() (json.RawMessage, error) { return json.RawMessage("{}"), nil }

func (e *epoch) Segments(f func(rows int, body []byte) error) error { return e.log.Segments(f) }

func (e *epoch) Free() { e.log.Free() }

// appendRow writes a row (docs/formats/wal.md): topic, partition, time, key, value,
// headers.
func appendRow(dst []byte, row *kafkatxn.Row, timestamp int64) []byte {
	dst = wal.AppendBytes(dst, []byte(row.Topic))
	dst = binary.AppendVarint(dst, int64(row.Partition))
	dst = binary.AppendVarint(dst, timestamp)
	dst = wal.AppendBytes(wal.AppendBytes(dst, row.Key), row.Value)
	dst = binary.AppendUvarint(dst, uint64(len(row.Headers)))
	for _, h := range row.Headers {
		dst = wal.AppendBytes(wal.AppendBytes(dst, []byte(h.Key)), h.Value)
	}
	return dst
}

// readRow reads what appendRow wrote; the record points into b.
func readRow(b []byte) (*kgo.Record, error) {
	r := wal.NewReader(b)
	k := &kgo.Record{Topic: string(r.Bytes())}
	partition := r.Varint()
	k.Partition, k.Timestamp = int32(partition), time.UnixMilli(r.Varint())
	k.Key, k.Value = r.Bytes(), r.Bytes()
	n := r.Uvarint()
	if n > uint64(len(b)) { // each takes a byte at least
		return nil, fmt.Errorf("a row of %d bytes with %d headers", len(b), n)
	}
	for range n {
		k.Headers = append(k.Headers, kgo.RecordHeader{Key: string(r.Bytes()), Value: r.Bytes()})
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	if partition < int64(kafkatxn.ByKey) || partition != int64(k.Partition) || k.Topic == "" {
		return nil, fmt.Errorf("a row for partition %d of topic %q", partition, k.Topic)
	}
	return k, nil
}
