package file

import (
	"cmp"
	"path/filepath"
	"slices"
	"time"

	"etl/sink"
	"etl/stream"
)

// Format is how rows are written.
type Format string

// The formats.
const (
	JSON    Format = "json" // one document a line
	CSV     Format = "csv"  // RFC 4180, a header line first
	Parquet Format = "parquet"
)

// Compression of a file; in Parquet, of its pages.
type Compression string

// The compressions.
const (
	Uncompressed Compression = "none"
	Gzip         Compression = "gzip"
	Zstd         Compression = "zstd"
)

// Config describes a sink. The zero value of a field means its default.
type Config struct {
	// Path is the directory below which everything lies. It is made if there is none, and
	// must be the same for all attempts.
	Path string
	// Format is json, csv or parquet; default json.
	Format Format
	// Compression is none, gzip or zstd; default none.
	Compression Compression
	// Columns are those of csv and parquet, in their order.
	Columns []Column
	// PartitionBy are the names of the partitions; an Encoder gives a row the value of
	// each.
	PartitionBy []string
	// NewEncoder returns the encoder of one subtask; nil writes each value as it is,
	// which only json can.
	NewEncoder func() Encoder
	// RollSize ends a part file of about so many bytes; default 128 MiB. RollAge ends
	// one that has been open so long, when the next row comes; 0: never. A checkpoint
	// ends every part.
	RollSize int64
	RollAge  time.Duration
	// MaxOpen is the most part files one subtask writes at once; default 64. The one
	// that was used longest ago is ended for another.
	MaxOpen int
	// Memory bounds what the open Parquet files of one subtask hold back; default
	// 64 MiB.
	Memory int64
	// Parallelism is the number of subtasks; default 1.
	Parallelism int
	// AcceptForeign lets a job without stored checkpoints start beside what an earlier
	// life of the same name has committed.
	AcceptForeign bool
}

// WithDefaults returns c with its zero fields filled in.
func (c Config) WithDefaults() Config {
	c.Format = cmp.Or(c.Format, JSON)
	c.Compression = cmp.Or(c.Compression, Uncompressed)
	c.RollSize = cmp.Or(c.RollSize, 128<<20)
	c.MaxOpen = cmp.Or(c.MaxOpen, 64)
	c.Memory = cmp.Or(c.Memory, 64<<20)
	c.Parallelism = cmp.Or(c.Parallelism, 1)
	return c
}

// Problems returns everything that is wrong with c, which has its defaults.
func (c *Config) Problems() (errs []error) {
	bad := func(code, fix, format string, args ...any) {
		errs = append(errs, stream.Errorf(stream.BadConfig, "file."+code, "", "", format, args...).WithFix("%s", fix))
	}
	if c.Path == "" || filepath.Clean(c.Path) == "/" {
		bad("path", "name a directory of its own, such as /data/orders", "path %q is not a directory that may be filled", c.Path)
	}
	if !slices.Contains([]Format{JSON, CSV, Parquet}, c.Format) {
		bad("format", "write one of them", "format %q is not json, csv or parquet", c.Format)
	}
	if !slices.Contains([]Compression{Uncompressed, Gzip, Zstd}, c.Compression) {
		bad("compression", "write one of them", "compression %q is not none, gzip or zstd", c.Compression)
	}
	if c.RollSize < 1 || c.RollAge < 0 {
		bad("roll", "write a size such as 128MiB, and an age of 0s for no limit", "roll.size %d and roll.age %v must be positive", c.RollSize, c.RollAge)
	}
	if c.MaxOpen < 1 {
		bad("max_open", "write 64, or remove it", "max_open_files %d must be positive", c.MaxOpen)
	}
	return append(errs, c.columnProblems()...)
}

func (c *Config) columnProblems() (errs []error) {
	bad := func(code, fix, format string, args ...any) {
		errs = append(errs, stream.Errorf(stream.BadConfig, "file."+code, "", "", format, args...).WithFix("%s", fix))
	}
	if c.Format == JSON && len(c.Columns) > 0 {
		bad("columns", "give map:, or another format", "columns belong to csv and parquet; json takes a map")
	}
	if c.Format != JSON && len(c.Columns) == 0 {
		bad("columns", "add columns: { name: expression }", "%s needs columns", c.Format)
	}
	names := map[string]bool{}
	for _, col := range c.Columns {
		if col.Name == "" || names[col.Name] {
			bad("columns", "give every column a name of its own", "column %q is there twice, or has no name", col.Name)
		}
		names[col.Name] = true
		if err := col.Type.check(); err != nil && c.Format == Parquet {
			bad("columns", "mend its type", "column %s: %v", col.Name, err)
		}
	}
	for i, name := range c.PartitionBy {
		if name == "" || len(escape(name)) > maxName/2 || slices.Contains(c.PartitionBy[:i], name) {
			bad("partition_by", "give every partition a short name of its own", "partition %q is there twice, or its name is empty or too long", name)
		}
	}
	return errs
}

// Features returns what the sink can do.
func (c Config) Features() sink.Features {
	return sink.Features{Transactional: true, Marker: true, Ordered: true, AppendOnly: true}
}

// connector is a Config as a program plugs it in.
type connector struct{ cfg Config }

// New returns the sink as a program plugs it into a pipeline.
func New(cfg Config) sink.Connector { return connector{cfg} }

func (c connector) NewWriter() sink.Writer       { return NewWriter(c.cfg) }
func (c connector) NewCommitter() sink.Committer { return NewCommitter(c.cfg) }
func (c connector) Features() sink.Features      { return c.cfg.Features() }

// Kind and Version are those of the sink's committables; their format is
// docs/formats/file.md.
const (
	Kind    = "file-parts"
	Version = 1
)
