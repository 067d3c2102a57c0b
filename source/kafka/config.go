package kafka

import (
	"slices"
	"strings"
	"time"

	"etl/internal/kafkaconn"
	"etl/stream"
)

// Where is a place in a topic.
type Where string

// The places. None is the end of a read that does not end.
const (
	Earliest Where = "earliest"
	Latest   Where = "latest"
	Exact    Where = "offsets"
	None     Where = ""
)

// Offsets are exact offsets by topic and partition.
type Offsets map[string]map[int32]int64

// The isolation levels.
const (
	ReadCommitted   = "read_committed"
	ReadUncommitted = "read_uncommitted"
)

// Config describes a source. The zero value of a field means its default.
type Config struct {
	// Cluster says how to reach the brokers. Dial and Log default to the world's.
	Cluster kafkaconn.Config
	// Topics are read, all partitions of each; at least one, no patterns.
	Topics []string
	// Start is where the partitions begin that exist at the job's first start;
	// default Earliest. With Exact, StartOffsets names every one of them.
	Start        Where
	StartOffsets Offsets
	// End is where the source is finished; default None, never. Latest is what
	// can be read at the first start: the last stable offset, or, uncommitted, the
	// high watermark. With Exact, EndOffsets names the first offset that is not
	// read of every partition; it may lie ahead.
	End        Where
	EndOffsets Offsets
	// Isolation is ReadCommitted (default) or ReadUncommitted.
	Isolation string
	// Group is a consumer group to report offsets to, for lag tools only; default
	// none.
	Group string

	// FetchMaxBytes bounds a fetch from one broker; default 32 MiB. A subtask
	// holds up to two of them for each broker. FetchMaxPartitionBytes bounds the
	// share of a partition; default 2 MiB.
	FetchMaxBytes, FetchMaxPartitionBytes int32
	// BatchRecords is the largest number of records in a batch; default 1024.
	BatchRecords int
	// StallAfter is how long a partition may have records and make no progress
	// before that is reported; default 60s.
	StallAfter time.Duration
	// OnStall is told of each stall, once, from a goroutine of the reader. It is
	// logged anyway.
	OnStall func(task stream.TaskID, s Stall)
	// OnOpen is called when a reader opens, with a function that returns how far
	// behind each of its partitions is. Any goroutine may call that one, at any
	// time.
	OnOpen func(task stream.TaskID, lag func() []Lag)
}

// Bounded reports whether the source ends.
func (c *Config) Bounded() bool { return c.End != None }

// WithDefaults returns c with its zero fields filled in.
func (c Config) WithDefaults() Config {
	if c.Start == "" {
		c.Start = Earliest
	}
	if c.Isolation == "" {
		c.Isolation = ReadCommitted
	}
	if c.FetchMaxBytes == 0 {
		c.FetchMaxBytes = 32 << 20
	}
	if c.FetchMaxPartitionBytes == 0 {
		c.FetchMaxPartitionBytes = 2 << 20
	}
	if c.BatchRecords == 0 {
		c.BatchRecords = 1024
	}
	if c.StallAfter == 0 {
		c.StallAfter = 60 * time.Second
	}
	return c
}

// Problems returns everything that is wrong with c, which has its defaults.
func (c *Config) Problems() []error {
	p := problems{errs: c.Cluster.Problems()}
	if len(c.Topics) == 0 {
		p.add("topics", "topics", "name one or more topics", "no topic is given")
	}
	for i, t := range c.Topics {
		if !legalTopic(t) {
			p.add("topics", "topic "+t, "write the name of a topic", "is not a name Kafka allows: 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'")
		}
		if slices.Contains(c.Topics[:i], t) {
			p.add("topics", "topic "+t, "list it once", "is given twice")
		}
	}
	p.place("start", c.Start, []Where{Earliest, Latest, Exact}, c.StartOffsets, c.Topics)
	p.place("end", c.End, []Where{None, Latest, Exact}, c.EndOffsets, c.Topics)
	if c.Isolation != ReadCommitted && c.Isolation != ReadUncommitted {
		p.add("isolation", "isolation "+c.Isolation, "write one of them", "is not %s or %s", ReadCommitted, ReadUncommitted)
	}
	if c.FetchMaxPartitionBytes < 1 || c.FetchMaxBytes < c.FetchMaxPartitionBytes || c.FetchMaxBytes > maxFetch {
		p.add("fetch", "fetch", "raise the first, or lower the second", "max_bytes %d and max_partition_bytes %d: the second must be at least 1 and at most the first, which is at most %d", c.FetchMaxBytes, c.FetchMaxPartitionBytes, maxFetch)
	}
	if c.BatchRecords < 1 || c.BatchRecords > 1<<16 {
		p.add("batch", "batch records", "choose a number between them", "%d is not between 1 and %d", c.BatchRecords, 1<<16)
	}
	if c.StallAfter < time.Second {
		p.add("stall", "stall_after", "write 1s or more", "%v is less than a second", c.StallAfter)
	}
	return p.errs
}

// maxFetch leaves room under what kgo takes as one answer (100 MiB).
const maxFetch = 64 << 20

type problems struct{ errs []error }

func (p *problems) add(code, subject, fix, format string, args ...any) {
	p.errs = append(p.errs, stream.Errorf(stream.BadConfig, "source."+code, "", subject, format, args...).WithFix("%s", fix))
}

// place checks start or end and the offsets that belong to it.
func (p *problems) place(field string, w Where, allowed []Where, offsets Offsets, topics []string) {
	if !slices.Contains(allowed, w) {
		p.add(field, field+" "+string(w), "write one of them", "is not one of %v", allowed)
	}
	if (w == Exact) != (len(offsets) > 0) {
		p.add(field, field+" "+string(w), "name the offsets of each topic, or none", "%d topics have offsets: they belong to %s: offsets, and it to them", len(offsets), field)
	}
	for t, ps := range offsets {
		if !slices.Contains(topics, t) {
			p.add(field, field+" "+t, "list the topic under topics, or remove its offsets", "has offsets and is not in topics")
		}
		for n, o := range ps {
			if n < 0 || o < 0 {
				p.add(field, field+" "+t, "write numbers from 0 on", "partition %d, offset %d: neither can be negative", n, o)
			}
		}
	}
}

const topicChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

func legalTopic(t string) bool {
	return t != "" && t != "." && t != ".." && len(t) <= 249 && strings.Trim(t, topicChars) == ""
}
