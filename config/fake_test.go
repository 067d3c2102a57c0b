package config

import (
	"context"
	"io/fs"
	"strings"
	"time"

	"etl/checkpoint"
	"etl/expr"
	"etl/pipeline"
	"etl/sink"
	"etl/source"
	"etl/state"
	"etl/stream"
)

// The component types of the tests: like those of Kafka, without its libraries.

type fakeConnection struct {
	SeedBrokers []string  `yaml:"seed_brokers" required:"true" comma:"true" doc:"the first brokers to ask, host:port"`
	SASL        *fakeSASL `yaml:"sasl" doc:"authentication"`
	TLS         *struct {
		CAFile string `yaml:"ca_file" doc:"certificates to trust"`
	} `yaml:"tls" doc:"encryption"`
}

type fakeSASL struct {
	Mechanism string `yaml:"mechanism" required:"true" oneof:"PLAIN|SCRAM-SHA-512" doc:"how to authenticate"`
	Username  string `yaml:"username" doc:"user"`
	Password  Secret `yaml:"password" doc:"password"`
}

type fakeSource struct {
	Connection string    `yaml:"connection" required:"true" doc:"the name of a connection"`
	Topics     []string  `yaml:"topics" required:"true" doc:"topics to read"`
	Start      fakeStart `yaml:"start" doc:"where to begin"`
	Isolation  string    `yaml:"isolation" default:"read_committed" oneof:"read_committed|read_uncommitted" doc:"what to read"`
	MaxRecord  Size      `yaml:"max_record" default:"1MiB" doc:"the largest record"`
	_          struct{}  `reserved:"topics_regex"`
}

type fakeStart struct {
	At      string          `yaml:"at" word:"true" default:"earliest" oneof:"earliest|latest" doc:"where"`
	Offsets Map[Map[int64]] `yaml:"offsets" min:"0" doc:"by topic and partition"`
}

type fakeSink struct {
	Connection string    `yaml:"connection" required:"true" doc:"the name of a connection"`
	Topic      string    `yaml:"topic" required:"true" doc:"topic to write"`
	Key        Expr      `yaml:"key" doc:"key of the records"`
	Map        Map[Expr] `yaml:"map" doc:"fields of the value"`
	Delivery   string    `yaml:"delivery" default:"two_phase" oneof:"two_phase|at_least_once" doc:"the guarantee"`
	Timeout    Duration  `yaml:"transaction_timeout" default:"15m" doc:"of transactions"`
	Prefix     string    `yaml:"prefix" doc:"of ids"`
}

func fakeRegistry() *Registry {
	r := NewRegistry()
	RegisterConnection(r, "kafka", "a cluster", func(c *Component, s *fakeConnection) {
		if s.SASL != nil && s.SASL.Password.IsZero() {
			c.Problem("sasl.password", "kafka.sasl", "the password is empty", "give one")
		}
	})
	Register(r, Sources, "kafka", "topics", makeFakeSource)
	Register(r, Sinks, "kafka", "a topic", makeFakeSink)
	r.Storage("file", func(context.Context, stream.World, string, StorageURL) (checkpoint.Storage, error) { return nil, nil })
	r.Storage("memory", func(context.Context, stream.World, string, StorageURL) (checkpoint.Storage, error) { return nil, nil })
	r.Backend("pebble", func(BackendSpec) func(pipeline.BackendEnv) (state.Backend, error) { return nil })
	r.Backend("memory", func(BackendSpec) func(pipeline.BackendEnv) (state.Backend, error) { return nil })
	return r
}

func makeFakeSource(c *Component, s *fakeSource) Parts {
	p := Parts{Source: &pipeline.Source{NewReader: func() source.Reader { return nil }}, Detail: strings.Join(s.Topics, ", ")}
	if con := Connected[fakeConnection](c, "connection", s.Connection); con != nil {
		for _, t := range s.Topics {
			p.Reads = append(p.Reads, Place{strings.Join(con.SeedBrokers, ","), t})
		}
	}
	if s.Isolation == "read_uncommitted" {
		p.Limits = []Limit{{AtLeastOnce, "isolation: read_uncommitted", "records of aborted transactions are read"}}
	}
	return p
}

func makeFakeSink(c *Component, s *fakeSink) Parts {
	p := Parts{Sink: &pipeline.Sink{Delivery: s.Delivery}, Detail: s.Topic, TimeoutKey: "transaction_timeout"}
	if con := Connected[fakeConnection](c, "connection", s.Connection); con != nil {
		p.Writes = []Place{{strings.Join(con.SeedBrokers, ","), s.Topic}}
	}
	if len(s.Map) == 0 {
		c.RawLetters()
	}
	if s.Key != "" {
		c.Compile("key", s.Key, expr.Env{This: c.Schema()})
	}
	for _, f := range s.Map {
		c.Compile("map."+f.Key, f.Value, expr.Env{This: c.Schema()})
	}
	if s.Prefix != "" {
		p.Claims = []Claim{{"transactional id prefix", s.Prefix, "prefix"}}
	}
	if s.Delivery == "two_phase" {
		p.Sink.NewCommitter = func() sink.Committer { return nil }
		p.Sink.Features = sink.Features{Transactional: true, Timeout: s.Timeout.Std()}
		p.Notes = []string{"readers must use isolation.level=read_committed"}
	} else {
		p.Limits = []Limit{{AtLeastOnce, "delivery: at_least_once", "rows are written before the checkpoint is complete"}}
	}
	return p
}

// fakeFile is a secret file of a test.
type fakeFile struct {
	content string
	mode    fs.FileMode
}

func (f fakeFile) Name() string       { return "secret" }
func (f fakeFile) Size() int64        { return int64(len(f.content)) }
func (f fakeFile) Mode() fs.FileMode  { return f.mode }
func (f fakeFile) ModTime() time.Time { return time.Time{} }
func (f fakeFile) IsDir() bool        { return f.mode.IsDir() }
func (f fakeFile) Sys() any           { return nil }

// fakeOutside gives variables and files, and one disk for each first folder.
func fakeOutside(env map[string]string, files map[string]fakeFile) Outside {
	return Outside{
		LookupEnv: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		ReadFile: func(name string) ([]byte, error) {
			if f, ok := files[name]; ok {
				return []byte(f.content), nil
			}
			return nil, fs.ErrNotExist
		},
		Stat: func(name string) (fs.FileInfo, error) {
			if f, ok := files[name]; ok {
				return f, nil
			}
			return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
		},
		Device: func(path string) (uint64, bool) {
			return stream.Hash([]byte(strings.SplitN(path, "/", 3)[1])), true
		},
	}
}
