package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/checkpoint"
	"etl/internal/broken"
	"etl/internal/kafkaconn"
	"etl/sink"
	"etl/sink/kafkatxn"
	"etl/stream"
)

// Row, ByKey and Encoder are those of every sink that writes Kafka.
type (
	Row     = kafkatxn.Row
	Encoder = kafkatxn.Encoder
)

// ByKey as Row.Partition lets the key decide.
const ByKey = kafkatxn.ByKey

// Config describes a sink. The zero value of a field means its default.
type Config struct {
	Conn kafkaconn.Config
	// Topics are all topics the sink may write to, at least one. The first is where
	// rows go that name none, and its partition 0 carries the markers: this job's
	// principal needs WRITE, READ and DESCRIBE on all of them.
	Topics []string
	// Prefix begins all outside names; default "etl".
	Prefix string
	// Policy is the job's; it decides the mode, the number of slots and whether
	// producers are kept. Its zero fields have the policy's defaults.
	Policy checkpoint.Policy
	// TransactionTimeout is how long a transaction may stay open, its commit
	// included; default 15m, or the brokers' maximum when that is less.
	TransactionTimeout time.Duration
	// Compression is none, gzip, snappy, lz4 or zstd; default none.
	Compression string
	// Linger is how long a row may wait for others to share its request; default
	// 5ms. NoLinger means not at all.
	Linger time.Duration
	// InFlightBytes bounds what one subtask has sent and not seen acknowledged;
	// default 32 MiB. Write waits beyond it.
	InFlightBytes int64
	// HoldBytes bounds the rows of one subtask that wait for the last epoch to be
	// acknowledged; default 32 MiB. Write waits beyond it.
	HoldBytes int64
	// Encode turns records into rows; nil passes key, value, headers and time on.
	Encode Encoder
	// Parallelism is the number of subtasks, to find the ids of earlier attempts by
	// name; default 1.
	Parallelism int
	// AcceptForeign lets a job without stored checkpoints start beside markers of an
	// earlier life of the same name.
	AcceptForeign bool
}

// NoLinger as Config.Linger sends every row at once.
const NoLinger time.Duration = -1

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// WithDefaults returns c with its zero fields filled in.
func (c Config) WithDefaults() Config {
	c.Policy = c.Policy.WithDefaults()
	if c.Compression == "" {
		c.Compression = "none"
	}
	switch c.Linger {
	case 0:
		c.Linger = 5 * time.Millisecond
	case NoLinger:
		c.Linger = 0
	}
	if c.InFlightBytes == 0 {
		c.InFlightBytes = 32 << 20
	}
	if c.HoldBytes == 0 {
		c.HoldBytes = 32 << 20
	}
	if c.Parallelism == 0 {
		c.Parallelism = 1
	}
	return c
}

// Problems returns everything that is wrong with c, which has its defaults.
func (c *Config) Problems() (errs []error) {
	errs = c.Conn.Problems()
	bad := func(code, fix, format string, args ...any) {
		errs = append(errs, stream.Errorf(stream.BadConfig, "kafka."+code, "", "", format, args...).WithFix("%s", fix))
	}
	if len(c.Topics) == 0 {
		bad("topics", "name one", "no topic is given")
	}
	seen := map[string]bool{}
	for _, t := range c.Topics {
		if !validTopic(t) {
			bad("topics", "write the name of a topic", "topic %q: a name has 1 to 249 letters, digits, '.', '_' and '-'", t)
		}
		if seen[t] {
			bad("topics", "list it once", "topic %q is given twice", t)
		}
		seen[t] = true
	}
	if _, ok := codecs[c.Compression]; !ok {
		bad("compression", "write one of them", "compression %q is not none, gzip, snappy, lz4 or zstd", c.Compression)
	}
	if c.TransactionTimeout < 0 || c.TransactionTimeout > 0 && c.TransactionTimeout < time.Second {
		bad("transaction_timeout", "write 15m, or remove it", "transaction_timeout %v is less than a second", c.TransactionTimeout)
	}
	if c.Linger < 0 || c.Linger > time.Minute {
		bad("linger", "write 5ms, or remove it", "linger %v is not between 0 and 1m", c.Linger)
	}
	if c.InFlightBytes < 0 || c.HoldBytes < 0 {
		bad("memory", "leave them out", "in_flight_bytes %d and hold_bytes %d must be positive", c.InFlightBytes, c.HoldBytes)
	}
	return append(errs, c.prefixProblems()...)
}

// prefixProblems keeps prefixes to what an access rule can name.
func (c *Config) prefixProblems() []error {
	if c.Prefix == "" || len(c.Prefix) <= 64 && validTopic(c.Prefix) {
		return nil
	}
	return []error{stream.Errorf(stream.BadConfig, "kafka.prefix", "", "", "prefix %q: at most 64 letters, digits, '.', '_' and '-'", c.Prefix).WithFix("use other characters, or a shorter one")}
}

func validTopic(s string) bool {
	if s == "" || s == "." || s == ".." || len(s) > 249 {
		return false
	}
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// Slots returns the most slots a subtask uses.
func (c *Config) Slots() int {
	if broken.Is(broken.NoCooling) {
		return 2
	}
	return 2*(c.Policy.MaxConcurrent+c.Policy.TolerableFailures) + 2
}

// transactional reports whether rows go out in transactions.
func (c *Config) transactional() bool { return c.Policy.Mode == checkpoint.ExactlyOnce }

// keeps reports whether producers are used again: below a second the handshakes of
// fresh ones would cost more than the transactions.
func (c *Config) keeps(tv int16) bool { return c.Policy.Interval < time.Second && tv >= 2 }

// Limits connects and returns the transaction timeout the sink will use and what the
// cluster allows. It refuses a timeout above the brokers' maximum, with the numbers.
func (c Config) Limits(ctx context.Context, w stream.World) (time.Duration, kafkaconn.Limits, error) {
	c = c.WithDefaults()
	if c.Conn.Dial == nil {
		c.Conn.Dial = w.Dial
	}
	cl, err := c.Conn.NewClient()
	if err != nil {
		return 0, kafkaconn.Limits{}, err
	}
	defer cl.Close()
	l, err := kafkaconn.ReadLimits(ctx, cl)
	if err != nil {
		return 0, l, err
	}
	timeout, err := kafkatxn.Timeout(c.TransactionTimeout, l)
	return timeout, l, err
}

// Features returns what the sink can do under a transaction timeout.
func (c Config) Features(timeout time.Duration) sink.Features {
	c = c.WithDefaults()
	f := sink.Features{AppendOnly: true, Ordered: true}
	if c.transactional() {
		f.Transactional, f.Marker, f.Timeout = true, true, timeout
	}
	return f
}

// options returns the raw client's part of the configuration.
func (c *Config) options(w stream.World, names kafkatxn.Names, timeout time.Duration) kafkatxn.Options {
	return kafkatxn.Options{Conn: c.Conn, World: w, Names: names, Topics: c.Topics, Timeout: timeout, AcceptForeign: c.AcceptForeign}
}

func (c *Config) names(job string, uid stream.UID, l stream.Lineage) kafkatxn.Names {
	return kafkatxn.Names{Prefix: c.Prefix, Job: job, Sink: uid, Lineage: l}
}
