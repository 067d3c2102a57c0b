package kafka

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"etl/checkpoint"
	"etl/config"
	"etl/pipeline"
	"etl/source"
	"etl/source/kafka"
	"etl/stream"
)

// Source are the keys of a source.
type Source struct {
	Connection    string   `yaml:"connection" required:"true" doc:"the name of a kafka connection"`
	Topics        []string `yaml:"topics" required:"true" doc:"the topics to read, all partitions of each"`
	Start         Start    `yaml:"start" doc:"where to begin when there is no checkpoint; partitions that are added later are read from their beginning"`
	End           *End     `yaml:"end" doc:"where the source is finished; without it, never"`
	Isolation     string   `yaml:"isolation" default:"read_committed" oneof:"read_committed|read_uncommitted" doc:"read_uncommitted also reads records of transactions that are aborted"`
	ConsumerGroup string   `yaml:"consumer_group" doc:"a group that positions are reported to after each checkpoint, for lag tools; it decides nothing"`
	Fetch         Fetch    `yaml:"fetch" doc:"how much is fetched at once"`
	_             struct{} `reserved:"topics_regex"`
}

// Start says where a source begins.
type Start struct {
	At      string                        `yaml:"at" word:"true" default:"earliest" oneof:"earliest|latest" doc:"the oldest record there is, or the next one to come"`
	Offsets config.Map[config.Map[int64]] `yaml:"offsets" min:"0" doc:"the first offset to read of every partition, by topic"`
	_       struct{}                      `reserved:"timestamp"`
}

// End says where a source is finished.
type End struct {
	At      string                        `yaml:"at" word:"true" default:"latest" oneof:"latest" doc:"what can be read when the job starts first"`
	Offsets config.Map[config.Map[int64]] `yaml:"offsets" min:"0" doc:"the first offset that is not read of every partition, by topic"`
}

// Fetch bounds fetches.
type Fetch struct {
	MaxBytes          config.Size `yaml:"max_bytes" default:"32MiB" doc:"the most that one broker is asked for; a subtask holds up to two of them for each broker"`
	MaxPartitionBytes config.Size `yaml:"max_partition_bytes" default:"2MiB" doc:"the share of one partition"`
}

// sourceKeys are the keys behind the codes of source/kafka.
var sourceKeys = map[string]string{"source.topics": "topics", "source.start": "start", "source.end": "end", "source.isolation": "isolation", "source.fetch": "fetch"}

func (o Options) source(c *config.Component, s *Source) config.Parts {
	cfg := kafka.Config{Topics: s.Topics, Start: kafka.Where(s.Start.At), Isolation: s.Isolation, Group: s.ConsumerGroup,
		FetchMaxBytes: clamp(s.Fetch.MaxBytes), FetchMaxPartitionBytes: clamp(s.Fetch.MaxPartitionBytes), OnOpen: o.OnOpen, OnStall: o.OnStall}
	cfg.StartOffsets = offsets(c, "start.offsets", s.Start.Offsets)
	if len(s.Start.Offsets) > 0 {
		cfg.Start = kafka.Exact
		if c.Has("start.at") {
			c.Problem("start.at", "source.start", "at and offsets exclude each other", "remove one of the two")
		}
	}
	if s.End != nil {
		cfg.End = kafka.Latest
		if cfg.EndOffsets = offsets(c, "end.offsets", s.End.Offsets); len(s.End.Offsets) > 0 {
			cfg.End = kafka.Exact
		}
	}
	p := config.Parts{Detail: detail(s)}
	if conn := config.Connected[Connection](c, "connection", s.Connection); conn != nil {
		cfg.Cluster = o.conn(conn, c.UID)
		for _, t := range s.Topics {
			p.Reads = append(p.Reads, config.Place{System: conn.system(), Name: t})
		}
	}
	cfg = cfg.WithDefaults()
	for _, err := range cfg.Problems() {
		// The rest is the connection's; offsets are those of topics.
		if key := place(err, sourceKeys); key != "" && (key != "start" && key != "end" || c.Known("topics")) {
			c.Reject(element(key, s.Topics, err), err)
		}
	}
	if s.Isolation == kafka.ReadUncommitted {
		o.uncommitted(c, &p)
	}
	p.Probe = probe(cfg.Cluster, "topics", readRights(cfg))
	p.Source = &pipeline.Source{Bounded: cfg.Bounded(),
		NewEnumerator: func() source.Enumerator { return kafka.NewEnumerator(cfg) },
		NewReader:     func() source.Reader { return kafka.NewReader(cfg) }}
	return p
}

// element finds the topic that an error is about.
func element(key string, topics []string, err error) string {
	var e *stream.Error
	if key == "topics" && errors.As(err, &e) {
		for i := len(topics) - 1; i >= 0; i-- { // of two equal ones, the second
			if e.Subject == "topic "+topics[i] {
				return fmt.Sprintf("topics[%d]", i)
			}
		}
	}
	return key
}

// uncommitted refuses exactly-once over records that may be taken back.
func (o Options) uncommitted(c *config.Component, p *config.Parts) {
	if c.Job.Policy.Mode == checkpoint.ExactlyOnce {
		c.Problem("isolation", "source.read_uncommitted", "read_uncommitted also reads records of transactions that are aborted: output would hold what never was", "use read_committed, or checkpoint.mode: at_least_once")
	}
	p.Limits = append(p.Limits, config.Limit{Level: config.AtLeastOnce, Setting: "isolation: read_uncommitted", Why: "records of aborted transactions are read"})
}

// clamp keeps a size in the 31 bits of Kafka's protocol; what is too large is
// reported by the source.
func clamp(s config.Size) int32 { return int32(min(s, 1<<31-1)) }

func detail(s *Source) string {
	d := strings.Join(s.Topics, ", ")
	if s.End != nil {
		d += ", bounded"
	}
	return d
}

// offsets turns the keys of partitions into numbers.
func offsets(c *config.Component, path string, m config.Map[config.Map[int64]]) kafka.Offsets {
	out := kafka.Offsets{}
	for _, topic := range m {
		out[topic.Key] = map[int32]int64{}
		for _, p := range topic.Value {
			n, err := strconv.ParseInt(p.Key, 10, 32)
			if err != nil || n < 0 {
				c.Problem(path+"."+topic.Key+"."+p.Key, "source.partition", fmt.Sprintf("%q is not the number of a partition", p.Key), "write { 0: 123, 1: 456 }")
				continue
			}
			out[topic.Key][int32(n)] = p.Value
		}
	}
	return out
}
