package postgres

import (
	"fmt"
	"slices"
	"strings"

	"etl/checkpoint"
	"etl/config"
	"etl/internal/pgconn"
	"etl/sink/sqltxn"
	"etl/stream"
)

// Sink are the keys of a sink.
type Sink struct {
	Connection  string                  `yaml:"connection" required:"true" doc:"the name of a postgres connection"`
	Table       string                  `yaml:"table" required:"true" doc:"the table to write, schema.table, or a table of schema public; it must exist"`
	Mode        string                  `yaml:"mode" default:"append" oneof:"append|upsert|upsert_delete" doc:"append adds every row; upsert keeps the last row per key; upsert_delete does, too, and a record without a value deletes the row of its key"`
	Key         []string                `yaml:"key" one:"true" doc:"the columns of the key; records of one key go through one subtask, in their order"`
	Columns     config.Map[config.Expr] `yaml:"columns" required:"true" doc:"the columns to write, each with an expression"`
	Delivery    string                  `yaml:"delivery" oneof:"two_phase|wal|idempotent|at_least_once" means:"exactly once, rows commit with their checkpoint|exactly once, rows wait in checkpoint storage|effectively once, written at once, the last row of a key is right in the end|at least once, written at the barrier, a failure repeats rows" doc:"two_phase commits rows with their checkpoint, and is the default under exactly_once; wal keeps them in checkpoint storage until it is complete; at_least_once writes them at the barrier"`
	Strategy    string                  `yaml:"strategy" default:"auto" oneof:"auto|prepared|staged" doc:"of two_phase: prepared uses PREPARE TRANSACTION, staged a staging table; auto decides by server and table, and says which and why"`
	LockTimeout config.Duration         `yaml:"lock_timeout" default:"10s" doc:"how long a statement waits for a lock before it is tried again"`
	Memory      config.Size             `yaml:"memory" default:"64MiB" doc:"how much of an epoch a subtask keeps in memory; the rest goes to disk"`
	SpillDir    string                  `yaml:"spill_dir" doc:"the folder for what does not fit into memory; default the system's folder for temporary files"`
	MaxLog      config.Size             `yaml:"max_log" default:"1GiB" doc:"of wal: the most that waits in checkpoint storage to be delivered; the job reads no faster beyond it"`
	Version     string                  `yaml:"version" default:"auto" oneof:"auto|counter|position|none" doc:"of idempotent: how an older row is told from a newer one; auto counts the records of each key, position takes offsets, none has no guard"`
	VersionCol  string                  `yaml:"version_column" default:"etl_version" doc:"of idempotent: the bigint column of versions"`
	ScopeCol    string                  `yaml:"scope_column" default:"etl_scope" doc:"of idempotent: the text column that says what versions can be compared"`
	_           struct{}                `reserved:"write"`
}

// writing is what all ways of delivery share: what of which table is written.
type writing struct {
	conn    *Connection
	config  pgconn.Config
	columns *columns
	parts   config.Parts
}

// sink makes the parts of a sink. Each way of delivery has a function in a file of its
// own, which gets what all share.
func (o Options) sink(c *config.Component, s *Sink) config.Parts {
	w := newWriting(c, s)
	deliver(c, s)
	switch s.Delivery {
	case "wal":
		return o.wal(c, s, w)
	case "idempotent":
		return o.idempotent(c, s, w)
	}
	return o.twoPhase(c, s, w)
}

// deliver settles how the sink writes.
func deliver(c *config.Component, s *Sink) {
	mode := c.Job.Policy.Mode
	switch {
	case s.Delivery == "" && mode == checkpoint.ExactlyOnce:
		s.Delivery = "two_phase"
	case s.Delivery == "":
		s.Delivery = "at_least_once"
	case s.Delivery == "two_phase" && mode != checkpoint.ExactlyOnce:
		c.Problem("delivery", "sink.delivery", "two_phase needs checkpoints of mode exactly_once, and the mode is "+string(mode), "remove delivery, or set checkpoint.mode: exactly_once")
	}
	if !c.Known("delivery") {
		return
	}
	for _, key := range []string{"version", "version_column", "scope_column"} {
		if s.Delivery != "idempotent" && c.Has(key) {
			c.Problem(key, "sink.delivery", key+" belongs to delivery: idempotent, and the delivery is "+s.Delivery, "remove "+key)
		}
	}
	if s.Delivery != "wal" && c.Has("max_log") {
		c.Problem("max_log", "sink.delivery", "max_log belongs to delivery: wal, and the delivery is "+s.Delivery, "remove max_log")
	}
	if s.Delivery != "two_phase" && c.Has("strategy") {
		c.Problem("strategy", "sink.delivery", "strategy belongs to delivery: two_phase, and the delivery is "+s.Delivery, "remove strategy")
	}
}

func newWriting(c *config.Component, s *Sink) *writing {
	w := &writing{columns: newColumns(c, s)}
	w.parts = config.Parts{Detail: detail(s), Key: w.columns.distribution()}
	if w.conn = config.Connected[Connection](c, "connection", s.Connection); w.conn == nil {
		w.conn = &Connection{Schema: sqltxn.DefaultSchema}
		return w
	}
	w.config = w.conn.Conn()
	if schema, table, err := sqltxn.SplitTable(s.Table); err == nil {
		w.parts.Writes = []config.Place{{System: w.config.System(), Name: schema + "." + table}}
	}
	return w
}

// name tells the table apart from those of other servers.
func (w *writing) name() string {
	if len(w.parts.Writes) == 0 {
		return ""
	}
	return w.parts.Writes[0].System + " " + w.parts.Writes[0].Name
}

// detail is the sink in plans: shop.counts, upsert by user_id.
func detail(s *Sink) string {
	if len(s.Key) == 0 {
		return s.Table + ", " + s.Mode
	}
	return fmt.Sprintf("%s, %s by %s", s.Table, s.Mode, strings.Join(s.Key, ", "))
}

// refuse reports what can be wrong with a sink without connecting. The rest is the
// connection's, or only follows from a key that is in doubt.
func refuse(c *config.Component, s *Sink, errs []error) {
	for _, err := range errs {
		if key := place(s, err); key != "" && (key != "key" || c.Known("columns", "mode")) {
			c.Reject(key, err)
		}
	}
}

// place returns the key of a sink that an error is about, "" for the sink itself. A column
// that the file does not name is the list's trouble.
func place(s *Sink, err error) string {
	switch stream.CodeOf(err) {
	case "postgres.table", "postgres.unlogged", pgconn.CodeMissing:
		return "table"
	case "postgres.column", "postgres.type", "postgres.columns":
		if slices.Contains(s.Columns.Keys(), subject(err)) {
			return "columns." + subject(err)
		}
		return "columns"
	case "postgres.key", "postgres.no_unique_key":
		return "key"
	case "postgres.no_version_column", "postgres.version_column":
		return "version"
	case "postgres.mode":
		return "mode"
	case "postgres.strategy", "postgres.prepared_too_few", "postgres.prepared_conflict", pgconn.CodePreparedDisabled:
		return "strategy"
	case "postgres.lock_timeout":
		return "lock_timeout"
	case "postgres.memory":
		return "memory"
	}
	return ""
}
