package postgres

import (
	"cmp"
	"context"
	"os"
	"time"

	"etl/internal/pgconn"
	"etl/sink"
	"etl/sink/sqltxn"
	"etl/sink/wal"
	"etl/stream"
)

// Kind names the rows and committables of this package.
const Kind = "wal-postgres"

// Config describes a sink. The zero value of a field means its default.
type Config struct {
	Conn pgconn.Config
	// Table is "schema.table", or "table" in schema public. It must exist.
	Table string
	// Mode is append, upsert or upsert_delete; default append.
	Mode sqltxn.Mode
	// Key are the columns of the key; Columns are those that are written, Key among them.
	Key, Columns []string
	// Encoder returns an encoder for one subtask, which gives rows their values in the
	// order of sqltxn.KeyFirst(Columns, Key).
	Encoder func() sqltxn.Encoder
	// Schema holds the books; default "etl".
	Schema string
	// LockTimeout bounds every wait for a lock; default 10s.
	LockTimeout time.Duration
	// Memory bounds the rows of one subtask in memory; default 64 MiB. What is beyond
	// goes to SpillDir, by default the system's folder for temporary files.
	Memory   int64
	SpillDir string
	// Sort says that rows which the server refuses go to the reject table; without it
	// they end the job.
	Sort bool
	// KeepRecords keeps with each row the record it was made of.
	KeepRecords bool
	// Parallelism is the number of subtasks; default 1.
	Parallelism int
	// AcceptForeign lets a job without stored checkpoints start beside markers of an
	// earlier life of the same name.
	AcceptForeign bool
	// Log are the options of the log.
	Log wal.Options
}

// WithDefaults returns c with its zero fields filled in.
func (c Config) WithDefaults() Config {
	c.Conn = c.Conn.WithDefaults()
	c.Mode = cmp.Or(c.Mode, sqltxn.Append)
	c.Schema = cmp.Or(c.Schema, sqltxn.DefaultSchema)
	c.LockTimeout = cmp.Or(c.LockTimeout, 10*time.Second)
	c.Memory = cmp.Or(c.Memory, 64<<20)
	c.SpillDir = cmp.Or(c.SpillDir, os.TempDir())
	c.Parallelism = cmp.Or(c.Parallelism, 1)
	return c
}

// New returns the sink as a program plugs it into a pipeline.
func New(cfg Config) *wal.Sink { return wal.New(target{cfg.WithDefaults()}, cfg.Log) }

// Features returns what the sink can do.
func (c Config) Features() sink.Features { return target{c.WithDefaults()}.Features() }

// target is a Config as the log takes it.
type target struct{ cfg Config }

var _ wal.Target = target{}

func (t target) Kind() string { return Kind }

func (t target) Features() sink.Features {
	keyed := t.cfg.Mode != sqltxn.Append
	return sink.Features{Transactional: true, Marker: true, MarkerStays: true, AppendOnly: !keyed, Upsert: keyed, NeedsKey: keyed}
}

func (t target) NewFront() wal.Front { return &front{cfg: t.cfg} }

func (t target) NewBack() wal.Back {
	return &back{cfg: t.cfg, retired: map[int]stream.CheckpointID{}, since: map[int]int{}}
}

func (c *Config) book(job string, uid stream.UID, l stream.Lineage) sqltxn.Book {
	return sqltxn.Book{Schema: c.Schema, Names: sqltxn.Names{Job: job, Sink: uid, Lineage: l}}
}

// look opens connections of no more than one session, looks at the table and calls f.
func (c *Config) look(ctx context.Context, w stream.World, application string, f func(conn *pgconn.Conn, g *sqltxn.Target) error) []error {
	conn := c.Conn
	if conn.Dial == nil {
		conn.Dial = w.Dial
	}
	conn.Log = w.Log
	p, err := pgconn.Open(ctx, conn, 1, application)
	if err != nil {
		return []error{err}
	}
	defer p.Close()
	var errs []error
	err = p.With(ctx, func(conn *pgconn.Conn) error {
		g, found := c.target(ctx, conn)
		if errs = found; len(errs) > 0 {
			return nil
		}
		return f(conn, g)
	})
	if err != nil {
		errs = append(errs, err)
	}
	return errs
}

// target reads the table's definition.
func (c *Config) target(ctx context.Context, conn *pgconn.Conn) (*sqltxn.Target, []error) {
	schema, name, err := sqltxn.SplitTable(c.Table)
	if err != nil {
		return nil, []error{err}
	}
	t, err := sqltxn.LoadTable(ctx, conn, schema, name)
	if err != nil {
		return nil, []error{err}
	}
	return sqltxn.NewTarget(t, c.Mode, c.Columns, c.Key)
}

// Preflight connects, looks at table, books and rights, and returns everything that is
// wrong. It changes nothing.
func (c Config) Preflight(ctx context.Context, w stream.World, job string, uid stream.UID) (g *sqltxn.Target, errs []error) {
	c = c.WithDefaults()
	errs = c.look(ctx, w, "etl "+job+"/"+string(uid), func(conn *pgconn.Conn, found *sqltxn.Target) error {
		g = found
		return c.book(job, uid, stream.Lineage{}).CheckLogRights(ctx, conn, found)
	})
	return g, errs
}

// Setup returns the statements that set the database up for the sink: the books, and,
// when role is not empty, the least rights that role needs. The table itself must exist.
func (c Config) Setup(ctx context.Context, w stream.World, job string, uid stream.UID, role string) (out []sqltxn.Statement, err error) {
	c = c.WithDefaults()
	errs := c.look(ctx, w, "etl "+job+"/"+string(uid), func(_ *pgconn.Conn, g *sqltxn.Target) error {
		out = c.book(job, uid, stream.Lineage{}).LogSetup(g, role)
		return nil
	})
	if len(errs) > 0 {
		return nil, errs[0]
	}
	return out, nil
}

// Initialise runs the statements of Setup, with the connection's role, which needs the
// right to create.
func (c Config) Initialise(ctx context.Context, w stream.World, job string, uid stream.UID, role string) error {
	c = c.WithDefaults()
	statements, err := c.Setup(ctx, w, job, uid, role)
	if err != nil {
		return err
	}
	errs := c.look(ctx, w, "etl "+job+"/"+string(uid), func(conn *pgconn.Conn, _ *sqltxn.Target) error {
		return sqltxn.ApplyStatements(ctx, conn, statements)
	})
	if len(errs) > 0 {
		return errs[0]
	}
	return nil
}
