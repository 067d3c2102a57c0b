package file

import (
	"context"
	"path/filepath"
	"strings"

	"etl/checkpoint"
	"etl/config"
	"etl/pipeline"
	"etl/sink"
	"etl/sink/twophase/file"
	"etl/stream"
)

// Sink are the keys of a sink.
type Sink struct {
	Path         string                  `yaml:"path" required:"true" doc:"the directory below which the files lie, from / on; it is made if there is none"`
	Format       string                  `yaml:"format" default:"json" oneof:"json|csv|parquet" doc:"json writes a document a line, csv a header and a line for each row"`
	Compression  string                  `yaml:"compression" default:"none" oneof:"none|gzip|zstd" doc:"of files; in parquet, of pages"`
	Value        config.Expr             `yaml:"value" doc:"of json: the document; default the value as it is"`
	Map          config.Map[config.Expr] `yaml:"map" doc:"of json: the document as an object, by fields"`
	Columns      config.Map[Column]      `yaml:"columns" doc:"of csv and parquet: the columns in their order, each an expression, or value and type"`
	PartitionBy  config.Map[config.Expr] `yaml:"partition_by" doc:"directories name=value between path and files, one inside the other, each with an expression"`
	Roll         Roll                    `yaml:"roll" doc:"when a part file ends before its checkpoint"`
	MaxOpenFiles int                     `yaml:"max_open_files" default:"64" min:"1" max:"4096" doc:"files that a subtask writes at once; the one used longest ago ends for another"`
	Delivery     string                  `yaml:"delivery" default:"two_phase" oneof:"two_phase" means:"exactly once, files appear with their checkpoint" doc:"two_phase shows files once their checkpoint is published"`
	_            struct{}                `reserved:"key schema bucket"`
}

// Column is a column of csv and parquet.
type Column struct {
	Value config.Expr `yaml:"value" word:"true" required:"true" doc:"what it holds"`
	Type  string      `yaml:"type" doc:"of parquet: boolean, int64, double, decimal(precision, scale), string, json, timestamp or date; default that of the expression, where it is known"`
}

// Roll says when part files end. A checkpoint ends them all.
type Roll struct {
	Size config.Size     `yaml:"size" default:"128MiB" doc:"about the size of a file"`
	Age  config.Duration `yaml:"age" default:"0s" doc:"how long after its first row a file ends, when the next row comes; 0s for no limit"`
}

// keys are the keys behind the codes of sink/twophase/file.
var keys = map[string]string{"file.path": "path", "file.format": "format", "file.compression": "compression", "file.roll": "roll",
	"file.max_open": "max_open_files", "file.columns": "columns", "file.partition_by": "partition_by"}

func (o Options) sink(c *config.Component, s *Sink) config.Parts {
	mode := c.Job.Policy.Mode
	if mode != checkpoint.ExactlyOnce {
		c.Problem("delivery", "sink.delivery", "files are shown with checkpoints of mode exactly_once, and the mode is "+string(mode), "set checkpoint.mode: exactly_once")
	}
	if s.Path != "" && !filepath.IsAbs(s.Path) {
		c.Problem("path", "file.path", "path is relative: a start from elsewhere would not find what the last one has prepared", "give it from / on")
	}
	e := newEncoding(c, s)
	cfg := file.Config{Path: s.Path, Format: file.Format(s.Format), Compression: file.Compression(s.Compression), Columns: e.columns,
		PartitionBy: s.PartitionBy.Keys(), NewEncoder: e.encoder(), RollSize: int64(s.Roll.Size), RollAge: s.Roll.Age.Std(), MaxOpen: s.MaxOpenFiles,
		Parallelism: c.Parallelism, AcceptForeign: o.AcceptForeign}.WithDefaults()
	if e.whole {
		for _, err := range cfg.Problems() {
			c.Reject(keys[stream.CodeOf(err)], err)
		}
	}
	return config.Parts{
		Detail: detail(s),
		Outage: "nothing that is published is lost: a full disk is waited for, with restarts; a directory that may not be written ends the job (exit 3), and the next run goes on from its last checkpoint",
		Probe:  func(context.Context, stream.World) []config.Found { return found(cfg) },
		Writes: []config.Place{{System: "file", Name: filepath.Clean(s.Path)}},
		Sink: &pipeline.Sink{Delivery: s.Delivery, Features: cfg.Features(),
			NewWriter:    func() sink.Writer { return file.NewWriter(cfg) },
			NewCommitter: func() sink.Committer { return file.NewCommitter(cfg) }},
	}
}

// found looks at the disk.
func found(cfg file.Config) (out []config.Found) {
	warnings, errs := cfg.Probe()
	for _, err := range errs {
		out = append(out, config.Found{Path: "path", Err: err})
	}
	for _, err := range warnings {
		out = append(out, config.Found{Path: "path", Err: err, Warning: true})
	}
	return out
}

// detail is the sink in plans: /data/orders, parquet in zstd, by day.
func detail(s *Sink) string {
	d := s.Path + ", " + s.Format
	if s.Compression != "none" {
		d += " in " + s.Compression
	}
	if len(s.PartitionBy) > 0 {
		d += ", by " + strings.Join(s.PartitionBy.Keys(), ", ")
	}
	return d
}
