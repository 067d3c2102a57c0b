package postgres

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"time"

	"etl/checkpoint"
	"etl/internal/pgconn"
	"etl/sink"
	"etl/sink/sqltxn"
	"etl/stream"
)

// The modes of a sink; see package sqltxn.
const (
	Append       = sqltxn.Append
	Upsert       = sqltxn.Upsert
	UpsertDelete = sqltxn.UpsertDelete
)

// Strategy is how rows become visible in two phases.
type Strategy string

// The strategies.
const (
	// Auto decides by the server and the table; see Choose.
	Auto Strategy = "auto"
	// Prepared uses PREPARE TRANSACTION.
	Prepared Strategy = "prepared"
	// Staged uses a staging table.
	Staged Strategy = "staged"
	// direct commits at the barrier: the modes that are not exactly once.
	direct Strategy = "direct"
)

// OnError is what becomes of a row that is found bad after its checkpoint is published.
type OnError string

// The policies, as the pipeline words them.
const (
	// Fail ends the job; the row stays staged until somebody mends the table.
	Fail OnError = "fail"
	// Skip and DeadLetter put it into the reject table.
	Skip       OnError = "skip"
	DeadLetter OnError = "dead_letter"
)

// Config describes a sink. The zero value of a field means its default.
type Config struct {
	Conn pgconn.Config
	// Table is "schema.table", or "table" in schema public. It must exist.
	Table string
	// Mode is append, upsert or upsert_delete; default append.
	Mode sqltxn.Mode
	// Key are the columns of the key. With mode append they only say which rows belong
	// together.
	Key []string
	// Columns are those that are written, Key among them.
	Columns []string
	// Encoder returns an encoder for one subtask, which gives rows their values in the
	// order of sqltxn.KeyFirst(Columns, Key).
	Encoder func() sqltxn.Encoder
	// Strategy is auto, prepared or staged; default auto.
	Strategy Strategy
	// Schema holds the books; default "etl".
	Schema string
	// LockTimeout bounds every wait for a lock; default 10s.
	LockTimeout time.Duration
	// Memory bounds the rows of one subtask in memory; default 64 MiB. What is beyond
	// goes to SpillDir, by default the system's folder for temporary files.
	Memory   int64
	SpillDir string
	// OnError is the component's policy; default fail.
	OnError OnError
	// Policy is the job's; its zero fields have the policy's defaults.
	Policy checkpoint.Policy
	// Parallelism is the number of subtasks; default 1.
	Parallelism int
	// AcceptForeign lets a job without stored checkpoints start beside markers of an
	// earlier life of the same name.
	AcceptForeign bool
}

// WithDefaults returns c with its zero fields filled in.
func (c Config) WithDefaults() Config {
	c.Conn, c.Policy = c.Conn.WithDefaults(), c.Policy.WithDefaults()
	c.Mode = cmp.Or(c.Mode, Append)
	c.Strategy = cmp.Or(c.Strategy, Auto)
	c.Schema = cmp.Or(c.Schema, sqltxn.DefaultSchema)
	c.LockTimeout = cmp.Or(c.LockTimeout, 10*time.Second)
	c.Memory = cmp.Or(c.Memory, 64<<20)
	c.SpillDir = cmp.Or(c.SpillDir, os.TempDir())
	c.OnError = cmp.Or(c.OnError, Fail)
	c.Parallelism = cmp.Or(c.Parallelism, 1)
	return c
}

// Problems returns everything that is wrong with c, which has its defaults, as far as it
// can be seen without connecting.
func (c *Config) Problems() (errs []error) {
	errs = c.Conn.Problems()
	bad := func(code, subject, fix, format string, args ...any) {
		errs = append(errs, stream.Errorf(stream.BadConfig, "postgres."+code, "", subject, format, args...).WithFix("%s", fix))
	}
	if c.Table == "" {
		bad("table", "", "name one, as table or schema.table", "no table is given")
	} else if _, _, err := sqltxn.SplitTable(c.Table); err != nil {
		bad("table", "", "write table or schema.table; a name that needs quotes cannot be used", "%v", err)
	}
	if err := sqltxn.CheckName(c.Schema); err != nil {
		bad("schema", "", "use another name", "%v", err)
	}
	switch c.Mode {
	case Append, Upsert, UpsertDelete:
	default:
		bad("mode", "", "write one of them", "mode %q is not append, upsert or upsert_delete", c.Mode)
	}
	switch c.Strategy {
	case Auto, Prepared, Staged:
	default:
		bad("strategy", "", "write one of them", "strategy %q is not auto, prepared or staged", c.Strategy)
	}
	if c.LockTimeout < time.Millisecond || c.LockTimeout > time.Hour {
		bad("lock_timeout", "", "write 10s, or remove it", "lock_timeout %v is not between 1ms and 1h", c.LockTimeout)
	}
	if c.Memory < 0 {
		bad("memory", "", "write 64MiB, or remove it", "memory %d must be positive", c.Memory)
	}
	return append(errs, c.columnProblems()...)
}

func (c *Config) columnProblems() (errs []error) {
	bad := func(code, subject, fix, format string, args ...any) {
		errs = append(errs, stream.Errorf(stream.BadConfig, "postgres."+code, "", subject, format, args...).WithFix("%s", fix))
	}
	if len(c.Columns) == 0 {
		bad("columns", "", "add columns: { name: expression }", "no column is given")
	}
	for list, what := range map[*[]string]string{&c.Columns: "columns", &c.Key: "key"} {
		for i, n := range *list {
			if err := sqltxn.CheckName(n); err != nil {
				bad(what, n, "rename the column in the table, or leave it out", "%v", err)
			}
			if slices.Contains((*list)[:i], n) {
				bad(what, n, "list it once", "the column %q is given twice", n)
			}
		}
	}
	for _, k := range c.Key {
		if !slices.Contains(c.Columns, k) {
			bad("key", k, "add it under columns:, or mend key:", "the column %q of the key is not among columns: %s", k, strings.Join(c.Columns, ", "))
		}
	}
	if c.Mode != Append && len(c.Key) == 0 {
		bad("key", "", "add key: the columns that a unique index has", "mode %s needs a key", c.Mode)
	}
	return errs
}

// transactional reports whether rows become visible with their checkpoint.
func (c *Config) transactional() bool { return c.Policy.Mode == checkpoint.ExactlyOnce }

// Features returns what the sink can do. What auto decides only the server knows; it never
// decides for what would need one epoch in flight.
func (c Config) Features() sink.Features {
	c = c.WithDefaults()
	f := sink.Features{AppendOnly: c.Mode == Append, Upsert: c.Mode != Append, NeedsKey: c.Mode != Append}
	if c.transactional() {
		f.Transactional, f.Marker, f.MarkerStays = true, true, true
		f.OneInFlight = c.Strategy == Prepared && c.Mode != Append
	}
	return f
}

// book returns the books as the sink of a job uses them.
func (c *Config) book(job string, uid stream.UID, l stream.Lineage) sqltxn.Book {
	return sqltxn.Book{Schema: c.Schema, Names: sqltxn.Names{Job: job, Sink: uid, Lineage: l}}
}
