package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"etl/internal/fault"
	"etl/internal/pgconn"
	"etl/sink"
	"etl/sink/sqltxn"
	"etl/sink/wal"
	"etl/stream"
)

// back delivers epochs.
type back struct {
	cfg  Config
	env  sink.CommitEnv
	book sqltxn.Book
	pool *pgconn.Pool
	seen sqltxn.Seen

	mu      sync.Mutex
	retired map[int]stream.CheckpointID // by subtask
	since   map[int]int                 // deliveries since old markers were purged
}

// Open connects and looks whether the books are there.
func (b *back) Open(ctx context.Context, env sink.CommitEnv) (err error) {
	b.env, b.book = env, b.cfg.book(env.Job, env.UID, env.Lineage)
	conn := b.cfg.Conn
	if conn.Dial == nil {
		conn.Dial = env.Dial
	}
	conn.Log = env.Log
	size := min(max(b.cfg.Parallelism, 1), conn.MaxConnections)
	if b.pool, err = pgconn.Open(ctx, conn, size, pgconn.Application(env.Lineage, env.Attempt, env.Job, env.UID)); err != nil {
		return err
	}
	server, err := b.pool.Inspect(ctx, env.Clock)
	if err != nil {
		return err
	}
	if server.StatementPooling {
		return stream.Errorf(stream.Environment, "postgres.statement_pooling", "connect", "sink", "the pooler between gives each statement to another session: no transaction of several statements is possible").
			WithFix("set pool_mode = transaction (or session) for this database, or connect to the server itself")
	}
	return b.pool.With(ctx, func(c *pgconn.Conn) error {
		_, err := b.book.Newest(ctx, c, 0)
		return err
	})
}

// layout reads how the rows of an entry lie.
func layout(e *wal.Entry) (*sqltxn.Layout, error) {
	l := new(sqltxn.Layout)
	err := wal.Strict(e.Plan, l)
	if err == nil {
		err = l.Check()
	}
	if err != nil {
		return nil, stream.Errorf(stream.RestoreRefused, "wal.committable", "read committable", fmt.Sprintf("checkpoint %s of %s", e.Checkpoint, e.Lane()), "%w", err)
	}
	return l, nil
}

// bookOf returns the books that an epoch was logged for.
func (b *back) bookOf(l *sqltxn.Layout) sqltxn.Book {
	book := b.book
	book.Schema = l.Book
	return book
}

// Probe looks for the marker. What has none can be delivered: the log has the rows, and
// markers are deleted only once a later checkpoint no longer lists their epoch.
func (b *back) Probe(ctx context.Context, e *wal.Entry, _ time.Time) (p sink.Probed, err error) {
	l, err := layout(e)
	if err != nil {
		return p, err
	}
	book := b.bookOf(l)
	err = b.pool.With(ctx, func(c *pgconn.Conn) error {
		if p.Marker, err = book.Newest(ctx, c, e.Subtask); err != nil {
			return err
		}
		marked, err := book.Marked(ctx, c, e.Subtask, e.Checkpoint)
		p.Status = sink.Open
		if marked {
			p.Status = sink.Committed
		}
		return err
	})
	p.Detail = fmt.Sprintf("%d segments, newest marker %s", e.Segments(), p.Marker)
	return p, err
}

// Marker returns the newest delivered checkpoint of a lane. A job that has published
// nothing refuses the markers of an earlier life of the same name (I12).
func (b *back) Marker(ctx context.Context, subtask int) (id stream.CheckpointID, err error) {
	err = b.pool.With(ctx, func(c *pgconn.Conn) error {
		if b.env.Fresh && !b.cfg.AcceptForeign {
			if err := b.book.Foreign(ctx, c); err != nil {
				return err
			}
		}
		id, err = b.book.Newest(ctx, c, subtask)
		return err
	})
	return id, err
}

// patience bounds one try of a delivery, more for each row; the ledger makes the next.
func patience(e *wal.Entry) time.Duration {
	return 30*time.Second + time.Duration(e.Rows)*500*time.Microsecond
}

// Deliver writes rows and marker in one transaction, unless the marker is there. A lower
// owner that was stopped in the middle of the same delivery holds the marker: its session is
// ended, and the next try has it.
func (b *back) Deliver(ctx context.Context, e *wal.Entry) (r sink.Result, err error) {
	l, err := layout(e)
	if err != nil {
		return r, err
	}
	whole, cancel := context.WithTimeout(ctx, patience(e))
	defer cancel()
	// A lock is waited for less long than the try may take, so that it is known what was waited for.
	d := &delivery{b: b, e: e, layout: l, book: b.bookOf(l), locks: min(b.cfg.LockTimeout, patience(e)/2)}
	err = b.pool.With(whole, func(c *pgconn.Conn) error {
		if r, err = d.once(whole, c, nil); pgconn.Row(err) == nil {
			return err
		}
		if !b.cfg.Sort {
			return d.refused(err)
		}
		r, err = d.sorted(whole, c)
		return err
	})
	if err == nil {
		b.seen.Committed(d.book, e.Subtask, e.Checkpoint)
		b.purge(whole, e.Subtask)
	} else {
		b.successor().Evict(ctx, err)
	}
	return r, err
}

// delivery is one epoch on its way into the table.
type delivery struct {
	b      *back
	e      *wal.Entry
	layout *sqltxn.Layout
	book   sqltxn.Book
	locks  time.Duration // how long one lock is waited for
}

// rows are those of the log, read once for each pass over them. A pass that finds another
// number of rows than the committable speaks of fails at its end.
func (d *delivery) rows(ctx context.Context) *sqltxn.Rows {
	var buf []byte
	n := int64(0)
	return d.layout.Logged(d.e.Segments(), func(i int) (int, []byte, error) {
		s, err := d.e.Segment(ctx, i, buf)
		if err != nil {
			return 0, nil, err
		}
		if i == 0 {
			n = 0
		}
		n, buf = n+int64(s.Rows), s.Body[:0]
		if i == d.e.Segments()-1 && n != d.e.Rows {
			return 0, nil, d.e.Damaged(i, fmt.Errorf("the segments hold %d rows instead of %d", n, d.e.Rows))
		}
		return s.Rows, s.Body, nil
	})
}

// once writes the epoch without the rows in bad, which go to the reject table.
func (d *delivery) once(ctx context.Context, c *pgconn.Conn, bad sqltxn.Bad) (r sink.Result, err error) {
	if err := c.Begin(ctx, d.locks); err != nil {
		return r, pgconn.Explain(err, "deliver rows", d.b.cfg.Table)
	}
	defer c.Rollback(ctx)
	if err := d.book.Fence(ctx, c, d.b.env.Attempt, false); err != nil {
		return r, err
	}
	if _, err := d.b.seen.Newest(ctx, c, d.book, d.e.Subtask); err != nil {
		return r, err
	}
	fresh, err := d.book.Mark(ctx, c, d.e.Subtask, d.e.Checkpoint, d.e.Rows-int64(bad.Len()))
	if err != nil {
		return r, err
	}
	if !fresh {
		return sink.Result{Outcome: sink.Already, ByMarker: true}, nil
	}
	if err := d.later(ctx, c); err != nil {
		return r, err
	}
	g, err := d.layout.Target(ctx, c)
	if err != nil {
		return r, err
	}
	rows := d.rows(ctx)
	if err := g.Write(ctx, c, rows, bad); err != nil {
		return r, explain(err, g)
	}
	if bad.Len() > 0 {
		if err := d.book.RejectRows(ctx, c, g, d.e.Subtask, d.e.Checkpoint, rows, bad); err != nil {
			return r, err
		}
	}
	fault.Point("wal.postgres.written")
	if err := c.CommitAt(ctx, "wal.postgres.commit.sent"); err != nil {
		return r, explain(err, g)
	}
	return sink.Result{Outcome: sink.Done, Rejects: int64(bad.Len()), Detail: d.book.Schema + ".reject"}, nil
}

// explain keeps the server's answer about a row as it is: the caller looks for the row.
func explain(err error, g *sqltxn.Target) error {
	if pgconn.Row(err) != nil {
		return err
	}
	return pgconn.Explain(err, "deliver rows", g.Table.String())
}

// later refuses to deliver behind a later delivery of the lane: its rows would overwrite
// newer ones.
func (d *delivery) later(ctx context.Context, c *pgconn.Conn) error {
	newest, err := d.book.Newest(ctx, c, d.e.Subtask)
	if err == nil && newest > d.e.Checkpoint {
		return stream.Errorf(stream.Failed, "wal.out_of_order", "deliver", fmt.Sprintf("checkpoint %s of %s", d.e.Checkpoint, d.e.Lane()), "I5: the later checkpoint %s is delivered already", newest)
	}
	return err
}

// sorted finds the rows that the server refuses, and delivers the others.
func (d *delivery) sorted(ctx context.Context, c *pgconn.Conn) (r sink.Result, err error) {
	var bad sqltxn.Bad
	for range 4 { // what others commit meanwhile can fool the search: not for ever
		g, terr := d.layout.Target(ctx, c)
		if terr != nil {
			return r, terr
		}
		if bad, err = g.Sift(ctx, c, d.rows(ctx), bad, d.locks, d.book.Fencing(d.b.env.Attempt, false)); err != nil {
			return r, err
		}
		if r, err = d.once(ctx, c, bad); pgconn.Row(err) == nil {
			return r, err
		}
	}
	return r, d.refused(err)
}

// refused is the error of a row that nobody puts aside.
func (d *delivery) refused(err error) error {
	return stream.Errorf(stream.Failed, "postgres.row_after_publish", "deliver rows", fmt.Sprintf("checkpoint %s of %s", d.e.Checkpoint, d.e.Lane()),
		"the table refuses a row: %w; the rows stay in the log", pgconn.Explain(err, "", "")).
		WithFix("mend the table and start the job again, or set on_error: skip or dead_letter, which puts such rows into %s", d.book.Schema+".reject")
}

// purgeEvery is after how many deliveries old markers are deleted.
const purgeEvery = 64

// Retired notes what nobody will ask about again.
func (b *back) Retired(subtask int, id stream.CheckpointID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.retired[subtask] = max(b.retired[subtask], id)
}

// purge deletes old markers of a subtask now and then. It is no part of a delivery: what
// fails is done the next time.
func (b *back) purge(ctx context.Context, subtask int) {
	b.mu.Lock()
	b.since[subtask]++
	due, before := b.since[subtask] >= purgeEvery, b.retired[subtask]
	if due {
		b.since[subtask] = 0
	}
	b.mu.Unlock()
	if !due || before == stream.NoCheckpoint {
		return
	}
	err := b.pool.With(ctx, func(c *pgconn.Conn) error {
		_, err := b.book.Purge(ctx, c, subtask, before)
		return err
	})
	if err != nil && ctx.Err() == nil {
		b.env.Log.Info("old markers were not deleted", "error", err)
	}
}

// successor is this attempt as one that takes the sink over.
func (b *back) successor() sqltxn.Successor {
	return sqltxn.Successor{Book: b.book, Pool: b.pool, World: b.env.World, Attempt: b.env.Attempt, Owners: b.env.Owners}
}

// Fence takes the sink over: afterwards no transaction of the owners can commit. What is
// kept lies in the log, and needs nothing of the server. What owners have prepared, when
// the sink was delivered in two phases, goes.
func (b *back) Fence(ctx context.Context, owners []stream.Attempt, _ []*wal.Entry) error {
	heir := b.successor()
	heir.Owners = owners
	_, err := heir.Usurp(ctx, nil)
	return err
}

// Inspect lists nothing: between two deliveries there is nothing of the sink outside.
func (b *back) Inspect(context.Context) ([]sink.InDoubt, error) { return nil, nil }

// Close closes the connections.
func (b *back) Close() error {
	if b.pool != nil {
		b.pool.Close()
	}
	return nil
}
