package kafka

import (
	"context"
	"time"

	"etl/checkpoint"
	"etl/config"
	"etl/pipeline"
	"etl/sink"
	"etl/sink/twophase/kafka"
	"etl/stream"
)

// Sink are the keys of a sink.
type Sink struct {
	Connection  string                  `yaml:"connection" required:"true" doc:"the name of a kafka connection"`
	Topic       string                  `yaml:"topic" required:"true" doc:"the topic to write; it must exist"`
	Key         config.Expr             `yaml:"key" doc:"the key of the records; default the one they have"`
	Value       config.Expr             `yaml:"value" doc:"the value of the records; default the one they have"`
	Map         config.Map[config.Expr] `yaml:"map" doc:"the value as a JSON object, by fields"`
	Encode      string                  `yaml:"encode" oneof:"json|text|raw" doc:"how the value is written; default as it is read"`
	Headers     string                  `yaml:"headers" default:"pass_through" oneof:"pass_through|none" doc:"whether headers are kept, in their order, with duplicates"`
	Partitioner string                  `yaml:"partitioner" default:"java" oneof:"java" doc:"java sends a key where Kafka's own clients would"`
	Compression string                  `yaml:"compression" default:"none" oneof:"none|gzip|snappy|lz4|zstd" doc:"of batches"`
	Linger      config.Duration         `yaml:"linger" default:"5ms" doc:"how long a record may wait for others to share its request"`
	Delivery    string                  `yaml:"delivery" oneof:"two_phase|wal|idempotent|at_least_once" means:"exactly once, a transaction commits with each checkpoint|exactly once, records wait in checkpoint storage, for brokers that may be away for long|effectively once, written at once, the last record of a key is right in the end|at least once, written at once, a failure repeats rows" doc:"two_phase commits a transaction with each checkpoint, and is the default under exactly_once; wal keeps records in checkpoint storage until it is complete, for brokers that may be away longer than a transaction lives; idempotent and at_least_once write at once, idempotent so that the last record of a key is right in the end"`
	Prefix      string                  `yaml:"transactional_id_prefix" default:"etl" doc:"begins all transactional ids and the group of markers, for access rules"`
	Timeout     *config.Duration        `yaml:"transaction_timeout" doc:"how long a transaction may stay open, its commit included; default 15m, or the brokers' maximum when that is less; of wal, how long one delivery may take, default 5m"`
	Memory      config.Size             `yaml:"memory" default:"64MiB" doc:"of wal: how much of an epoch a subtask keeps in memory; the rest goes to disk"`
	SpillDir    string                  `yaml:"spill_dir" doc:"of wal: the folder for what does not fit into memory; default the system's folder for temporary files"`
	MaxLog      config.Size             `yaml:"max_log" default:"1GiB" doc:"of wal: the most that waits in checkpoint storage to be delivered; the job reads no faster beyond it"`
	_           struct{}                `reserved:"topics partition"`
}

// defaultTimeout is what the brokers allow by default.
const defaultTimeout = 15 * time.Minute

// sinkKeys are the keys behind the codes of sink/twophase/kafka.
var sinkKeys = map[string]string{"kafka.topics": "topic", "kafka.compression": "compression", "kafka.transaction_timeout": "transaction_timeout",
	"kafka.linger": "linger", "kafka.prefix": "transactional_id_prefix"}

func (o Options) sink(c *config.Component, s *Sink) config.Parts {
	cfg := kafka.Config{Topics: []string{s.Topic}, Prefix: s.Prefix, Policy: c.Job.Policy, Compression: s.Compression, Linger: s.Linger.Std(),
		Parallelism: c.Parallelism, AcceptForeign: o.AcceptForeign}
	if s.Linger == 0 {
		cfg.Linger = kafka.NoLinger
	}
	timeout := defaultTimeout
	if s.Timeout != nil {
		timeout, cfg.TransactionTimeout = s.Timeout.Std(), s.Timeout.Std()
	}
	p := config.Parts{Detail: s.Topic, TimeoutKey: "transaction_timeout"}
	if conn := config.Connected[Connection](c, "connection", s.Connection); conn != nil {
		cfg.Conn = o.conn(conn, c.UID)
		p.Writes = []config.Place{{System: conn.system(), Name: s.Topic}}
		p.Claims = []config.Claim{{Kind: "transactional ids", Name: conn.system() + " " + s.Prefix + "." + c.Job.Name + "." + string(c.UID), Path: "transactional_id_prefix"}}
	}
	deliver(c, s, &cfg, &p)
	checkSink(c, cfg)
	p.Probe = probe(cfg.Conn, "topic", writeRights(s.Topic, s.Delivery == "two_phase" || s.Delivery == "wal"))
	encode := newEncoding(c, s)
	switch s.Delivery {
	case "idempotent":
		idempotent(c, s, encode, &cfg, &p)
		return p
	case "wal":
		return o.wal(c, s, cfg, encode, p)
	}
	if s.Delivery == "at_least_once" {
		p.Outage = "any outage loses nothing: records since the last checkpoint are written again; reading stops meanwhile"
	}
	p.Sink = &pipeline.Sink{Delivery: s.Delivery, Features: cfg.Features(timeout), NewWriter: func() sink.Writer {
		own := cfg
		own.Encode = encode.encoder()
		return kafka.NewWriter(own)
	}}
	if s.Delivery == "two_phase" {
		p.Sink.NewCommitter = func() sink.Committer { return kafka.NewCommitter(cfg) }
		p.Notes = []string{"readers must use isolation.level=read_committed"}
		p.Preflight = func(ctx context.Context, w stream.World) (config.Facts, error) {
			t, _, err := cfg.Limits(ctx, w)
			return config.Facts{TransactionTimeout: t}, err
		}
	}
	return p
}

// deliver settles how the sink writes.
func deliver(c *config.Component, s *Sink, cfg *kafka.Config, p *config.Parts) {
	mode := c.Job.Policy.Mode
	switch {
	case s.Delivery == "" && mode == checkpoint.ExactlyOnce:
		s.Delivery = "two_phase"
	case s.Delivery == "":
		s.Delivery = "at_least_once"
	case s.Delivery == "two_phase" && mode != checkpoint.ExactlyOnce:
		c.Problem("delivery", "sink.delivery", "two_phase needs checkpoints of mode exactly_once, and the mode is "+string(mode), "remove delivery, or set checkpoint.mode: exactly_once")
	}
	logOnly(c, s)
	if s.Delivery == "at_least_once" {
		if mode == checkpoint.ExactlyOnce {
			cfg.Policy.Mode = checkpoint.AtLeastOnce
		}
		p.Limits = append(p.Limits, config.Limit{Level: config.AtLeastOnce, Setting: "delivery: at_least_once", Why: "records are written before their checkpoint is complete, and again after a failure"})
	}
}

func checkSink(c *config.Component, cfg kafka.Config) {
	cfg = cfg.WithDefaults()
	for _, err := range cfg.Problems() {
		if key := place(err, sinkKeys); key != "" { // the rest is the connection's
			c.Reject(key, err)
		}
	}
}
