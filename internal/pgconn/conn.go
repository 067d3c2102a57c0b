package pgconn

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"etl/internal/fault"
	"etl/stream"
)

// Conn is a connection that was taken from a pool. It belongs to one goroutine.
type Conn struct{ c *pgxpool.Conn }

// Begin opens a transaction: READ COMMITTED whatever the default is, because under
// REPEATABLE READ a write that waited for a prepared transaction fails when that one
// commits (40001); READ WRITE; bounded waits for locks, because a prepared transaction
// has no backend and so takes part in no deadlock that a server would find; and commits
// that reach the disk, whatever the role's synchronous_commit is.
func (c *Conn) Begin(ctx context.Context, lockTimeout time.Duration) error {
	return c.begin(ctx, lockTimeout, 0)
}

// BeginBrief is Begin for whoever has nobody to end its session from outside: the server
// does, when nothing comes for idle, so that a process that was stopped keeps no locks.
func (c *Conn) BeginBrief(ctx context.Context, lockTimeout, idle time.Duration) error {
	return c.begin(ctx, lockTimeout, idle)
}

// begin opens a transaction; idle 0 is no limit.
func (c *Conn) begin(ctx context.Context, lockTimeout, idle time.Duration) error {
	ms := max(lockTimeout.Milliseconds(), 1)
	_, err := c.Simple(ctx, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;"+
		fmt.Sprintf("SELECT set_config('lock_timeout', '%dms', true),", ms)+
		fmt.Sprintf(" set_config('idle_in_transaction_session_timeout', '%dms', true),", idle.Milliseconds())+
		" set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true)")
	if err != nil {
		c.Rollback(ctx)
	}
	if _, own := byOp[Begin][State(err)]; own {
		return Explain(err, Begin, "")
	}
	return err
}

// Commit ends the transaction. An error that is not Answered leaves open whether it did.
func (c *Conn) Commit(ctx context.Context) error { return c.CommitAt(ctx, "") }

// IdlePatience is how long a transaction of a sink without a fence may stand still: far
// longer than any pause within a batch.
const IdlePatience = time.Minute

// CommitAt is Commit with a fault point that is passed when it is on the wire.
func (c *Conn) CommitAt(ctx context.Context, sent string) error {
	tag, err := c.SimpleAt(ctx, "COMMIT", sent)
	if err == nil && tag != "COMMIT" {
		return fmt.Errorf("COMMIT was answered by %s: the transaction had failed", tag)
	}
	return err
}

// Rollback ends the transaction, if one is open. A connection on which that does not
// work is closed, which does the same.
func (c *Conn) Rollback(ctx context.Context) {
	pc := c.c.Conn().PgConn()
	if pc.IsClosed() || pc.TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	if _, err := c.Simple(ctx, "ROLLBACK"); err != nil {
		c.Break()
	}
}

// closeLimit bounds the good-bye of a connection.
const closeLimit = 2 * time.Second

// Break closes the connection at once, whatever is under way.
func (c *Conn) Break() {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	_ = c.c.Conn().Close(ctx) // nothing is left to say to this server
}

// Simple runs statements of the simple protocol, which take no parameters, and returns
// the tag of the last one.
func (c *Conn) Simple(ctx context.Context, sql string) (tag string, err error) {
	return c.SimpleAt(ctx, sql, "")
}

// SimpleAt is Simple with a fault point that is passed when the statement is on the
// wire and its answer was not read.
func (c *Conn) SimpleAt(ctx context.Context, sql, sent string) (tag string, err error) {
	r := c.c.Conn().PgConn().Exec(ctx, sql)
	if sent != "" {
		fault.Point(sent)
	}
	results, err := r.ReadAll()
	if err != nil {
		return "", err
	}
	for _, res := range results {
		if res.Err != nil {
			return "", res.Err
		}
		tag = res.CommandTag.String()
	}
	return tag, nil
}

// Exec runs one statement with parameters and returns the number of rows it touched.
func (c *Conn) Exec(ctx context.Context, sql string, args ...any) (int64, error) {
	tag, err := c.c.Exec(ctx, sql, args...)
	return tag.RowsAffected(), err
}

// Query runs a statement with parameters and calls scan for each row.
func (c *Conn) Query(ctx context.Context, sql string, args []any, scan func(pgx.Rows) error) error {
	rows, err := c.c.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// ErrNoRow is what QueryRow returns when there is none.
var ErrNoRow = pgx.ErrNoRows

// QueryRow runs a statement that gives one row.
func (c *Conn) QueryRow(ctx context.Context, sql string, args []any, into ...any) error {
	return c.c.QueryRow(ctx, sql, args...).Scan(into...)
}

// Binary runs a statement whose parameters are in binary form already.
func (c *Conn) Binary(ctx context.Context, sql string, values [][]byte, types []uint32) (int64, error) {
	formats := []int16{1}
	r := c.c.Conn().PgConn().ExecParams(ctx, sql, values, types, formats, nil)
	tag, err := r.Close()
	return tag.RowsAffected(), err
}

// CopyIn runs a COPY ... FROM STDIN with what r gives, which is not read any more when it
// has returned.
func (c *Conn) CopyIn(ctx context.Context, sql string, r io.Reader) (int64, error) {
	g := &guarded{r: r}
	defer g.close()
	tag, err := c.c.Conn().PgConn().CopyFrom(ctx, g, sql)
	return tag.RowsAffected(), err
}

// guarded is a reader that can be taken away from a goroutine: the one of pgx that reads
// may live longer than its COPY, when the connection is lost.
type guarded struct {
	mu sync.Mutex
	r  io.Reader
}

func (g *guarded) Read(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.r == nil {
		return 0, io.ErrClosedPipe
	}
	return g.r.Read(p)
}

func (g *guarded) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.r = nil
}

// PrepareTransaction ends the transaction by preparing it under a gid. sent is passed as
// a fault point when the statement is on the wire.
//
// The tag is the only thing that tells: in a transaction that has failed the server
// answers ROLLBACK, and no error.
func (c *Conn) PrepareTransaction(ctx context.Context, gid, sent string) error {
	tag, err := c.SimpleAt(ctx, "PREPARE TRANSACTION "+Quote(gid), sent)
	if err != nil {
		return Explain(err, Prepare, gid)
	}
	if tag != string(Prepare) && !tagUnchecked() {
		return stream.Errorf(stream.Restart, "postgres.not_prepared", string(Prepare), gid,
			"the server answered %s: the transaction had failed, and nothing is prepared", tag)
	}
	return nil
}

// CommitPrepared commits a prepared transaction; sent as in PrepareTransaction.
func (c *Conn) CommitPrepared(ctx context.Context, gid, sent string) error {
	return c.finish(ctx, CommitPrepared, gid, sent)
}

// RollbackPrepared rolls a prepared transaction back.
func (c *Conn) RollbackPrepared(ctx context.Context, gid string) error {
	return c.finish(ctx, RollbackPrepared, gid, "")
}

func (c *Conn) finish(ctx context.Context, op Op, gid, sent string) error {
	tag, err := c.SimpleAt(ctx, string(op)+" "+Quote(gid), sent)
	if err == nil && tag != string(op) {
		err = fmt.Errorf("%s was answered by %s", op, tag)
	}
	return Explain(err, op, gid)
}

// Quote returns s as an SQL literal. It is for gids, which cannot be parameters; what
// could break out of one is refused by who makes them.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Ident returns a name as an SQL identifier.
func Ident(parts ...string) string { return pgx.Identifier(parts).Sanitize() }
