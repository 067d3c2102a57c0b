package kafka

import (
	"cmp"
	"context"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkaconn"
	"etl/sink"
	"etl/sink/kafkatxn"
	"etl/sink/wal"
	"etl/stream"
)

// Kind names the rows and committables of this package.
const Kind = "wal-kafka"

// Config describes a sink. The zero value of a field means its default.
type Config struct {
	Conn kafkaconn.Config
	// Topics are all topics the sink may write to, at least one. The first is where rows
	// go that name none, and its partition 0 carries the markers.
	Topics []string
	// Prefix begins all outside names; default "etl".
	Prefix string
	// TransactionTimeout is how long a delivery may take; default 5m, or the brokers'
	// maximum when that is less. One that was left open by a process that died holds up
	// readers until the next delivery of the lane, or until then.
	TransactionTimeout time.Duration
	// Compression is none, gzip, snappy, lz4 or zstd; default none.
	Compression string
	// Encode returns an encoder for one subtask; nil passes key, value, headers and time on.
	Encode func() kafkatxn.Encoder
	// Memory bounds the rows of an epoch of one subtask in memory; default 64 MiB. What is
	// beyond goes to SpillDir, by default the system's folder for temporary files.
	Memory   int64
	SpillDir string
	// Parallelism is the number of subtasks; default 1.
	Parallelism int
	// AcceptForeign lets a job without stored checkpoints start beside markers of an
	// earlier life of the same name.
	AcceptForeign bool
	// Log are the options of the log.
	Log wal.Options
}

const defaultTimeout = 5 * time.Minute

// WithDefaults returns c with its zero fields filled in.
func (c Config) WithDefaults() Config {
	c.Compression = cmp.Or(c.Compression, "none")
	c.Memory = cmp.Or(c.Memory, 64<<20)
	c.SpillDir = cmp.Or(c.SpillDir, os.TempDir())
	c.Parallelism = cmp.Or(c.Parallelism, 1)
	return c
}

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// New returns the sink as a program plugs it into a pipeline.
func New(cfg Config) *wal.Sink { return wal.New(target{cfg.WithDefaults()}, cfg.Log) }

// Features returns what the sink can do.
func (c Config) Features() sink.Features { return target{c}.Features() }

// target is a Config as the log takes it.
type target struct{ cfg Config }

var _ wal.Target = target{}

func (t target) Kind() string { return Kind }

func (t target) Features() sink.Features {
	return sink.Features{Transactional: true, Marker: true, AppendOnly: true, Ordered: true}
}

func (t target) NewFront() wal.Front { return &front{cfg: t.cfg} }

func (t target) NewBack() wal.Back { return &back{cfg: t.cfg} }

// open connects. The caller closes the client.
func (c *Config) open(ctx context.Context, w stream.World, job string, uid stream.UID, l stream.Lineage) (*kafkatxn.Client, error) {
	conn := c.Conn
	if conn.Dial == nil {
		conn.Dial = w.Dial
	}
	if conn.Log == nil {
		conn.Log = w.Log
	}
	raw, err := kafkatxn.Open(ctx, kafkatxn.Options{Conn: conn, World: w, Topics: c.Topics, AcceptForeign: c.AcceptForeign,
		Names: kafkatxn.Names{Prefix: c.Prefix, Job: job, Sink: uid, Lineage: l}})
	if err != nil {
		return nil, err
	}
	asked := c.TransactionTimeout
	if asked == 0 {
		asked = defaultTimeout
		if raw.Limits.Known {
			asked = min(asked, raw.Limits.TransactionTimeout)
		}
	}
	timeout, err := kafkatxn.Timeout(asked, raw.Limits)
	if err != nil {
		raw.Close()
		return nil, err
	}
	raw.SetTimeout(timeout)
	return raw, nil
}

// Preflight connects and tries every right that a delivery needs. It changes nothing.
func (c Config) Preflight(ctx context.Context, w stream.World, job string, uid stream.UID) error {
	c = c.WithDefaults()
	raw, err := c.open(ctx, w, job, uid, stream.Lineage{})
	if err != nil {
		return err
	}
	defer raw.Close()
	return raw.Preflight(ctx, 0, 1)
}
