package kafka

import (
	"context"
	"fmt"

	"etl/checkpoint"
	"etl/config"
	"etl/pipeline"
	"etl/sink/kafkatxn"
	"etl/sink/twophase/kafka"
	"etl/sink/wal"
	walkafka "etl/sink/wal/kafka"
	"etl/stream"
)

// wal makes a sink of delivery wal out of what the two-phase sink would be.
func (o Options) wal(c *config.Component, s *Sink, two kafka.Config, encode *encoding, p config.Parts) config.Parts {
	if mode := c.Job.Policy.Mode; mode != checkpoint.ExactlyOnce {
		c.Problem("delivery", "sink.delivery", "wal needs checkpoints of mode exactly_once, and the mode is "+string(mode), "write at_least_once, or set checkpoint.mode: exactly_once")
	}
	if s.Memory == 0 {
		c.Problem("memory", "kafka.memory", "an epoch without memory cannot be kept", "write 64MiB, or remove it")
	}
	cfg := walkafka.Config{Conn: two.Conn, Topics: two.Topics, Prefix: two.Prefix, TransactionTimeout: two.TransactionTimeout, Compression: two.Compression,
		Memory: int64(s.Memory), SpillDir: s.SpillDir, Parallelism: c.Parallelism, AcceptForeign: o.AcceptForeign, Log: wal.Options{MaxLog: int64(s.MaxLog)}}
	if !encode.passes() {
		cfg.Encode = func() kafkatxn.Encoder { return encode.encoder() }
	}
	own := walkafka.New(cfg)
	p.Sink = &pipeline.Sink{Delivery: s.Delivery, Features: cfg.Features(), NewWriter: own.NewWriter, NewCommitter: own.NewCommitter}
	p.Notes = []string{"readers must use isolation.level=read_committed",
		"records wait in checkpoint storage until their checkpoint is complete, then go out in one short transaction: the brokers may be away for as long as they keep markers (offsets.retention.minutes)"}
	p.Outage = fmt.Sprintf("an outage below the brokers' offsets.retention.minutes (7 days by default) loses nothing: records wait in the log, and at max_log %v or 500 checkpoints reading stops; after a longer one the job ends where it cannot tell what was delivered (exit 5)", s.MaxLog)
	p.Preflight = func(ctx context.Context, w stream.World) (config.Facts, error) {
		return config.Facts{}, cfg.Preflight(ctx, w, c.Job.Name, c.UID)
	}
	return p
}

// logOnly refuses keys of the log where there is none.
func logOnly(c *config.Component, s *Sink) {
	if !c.Known("delivery") {
		return
	}
	for _, key := range []string{"memory", "spill_dir", "max_log"} {
		if s.Delivery != "wal" && c.Has(key) {
			c.Problem(key, "sink.delivery", key+" belongs to delivery: wal, and the delivery is "+s.Delivery, "remove "+key)
		}
	}
	if s.Delivery == "wal" && c.Has("linger") {
		c.Problem("linger", "sink.delivery", "linger is for records that go out one by one, and delivery: wal sends an epoch at once", "remove linger")
	}
}
