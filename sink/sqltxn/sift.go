package sqltxn

import (
	"context"
	"maps"
	"time"

	"etl/internal/pgconn"
	"etl/stream"
)

// Bad are rows that the server refuses, by chunk and position, with its answer.
type Bad map[int]map[int]error

// Len returns the number of bad rows.
func (b Bad) Len() (n int) {
	for _, m := range b {
		n += len(m)
	}
	return n
}

// maxBad is how many bad rows of one epoch are sorted out one by one. More than that is
// not bad rows but a wrong table.
const maxBad = 1000

// rowWriter writes some rows of a chunk in an open transaction.
type rowWriter interface {
	write(ctx context.Context, c *pgconn.Conn, v *view, lo, hi int, skip map[int]error) error
}

// Check is what a transaction begins with: it says whether this attempt may still write.
// nil asks nobody.
type Check func(ctx context.Context, c *pgconn.Conn) error

// Sift finds the rows that the target refuses, in a transaction that is rolled back.
// known are those that are known already. Where there is a fence, the transaction reads it
// as every other does: it commits nothing, and its locks would still outlive a takeover.
func (g *Target) Sift(ctx context.Context, c *pgconn.Conn, rows *Rows, known Bad, lockTimeout time.Duration, fence Check) (Bad, error) {
	return sift(ctx, c, rows, g.writer(), known, lockTimeout, fence)
}

// sift writes the chunks one after the other, each in a savepoint. One that fails is
// halved, in order, until single rows fail. What went well stays for what comes after it
// to meet, so that of two rows which exclude each other the first one is good.
func sift(ctx context.Context, c *pgconn.Conn, rows *Rows, w rowWriter, known Bad, lockTimeout time.Duration, fence Check) (Bad, error) {
	begin := func() error { return c.Begin(ctx, lockTimeout) }
	if fence == nil { // nor is there anybody who ends the session of one that was stopped
		begin = func() error { return c.BeginBrief(ctx, lockTimeout, pgconn.IdlePatience) }
	}
	if err := begin(); err != nil {
		return nil, pgconn.Explain(err, "look for bad rows", "")
	}
	defer c.Rollback(ctx)
	if fence != nil {
		if err := fence(ctx, c); err != nil {
			return nil, err
		}
	}
	s := &sifter{ctx: ctx, c: c, w: w, found: known.clone()}
	err := rows.each(func(i int, v *view) error {
		s.chunk, s.v = i, v
		return s.try(0, len(v.rows))
	})
	return s.found, pgconn.Explain(err, "look for bad rows", "")
}

type sifter struct {
	ctx   context.Context
	c     *pgconn.Conn
	w     rowWriter
	found Bad
	chunk int
	v     *view
}

func (s *sifter) try(lo, hi int) error {
	if lo == hi || hi-lo == 1 && s.found[s.chunk][lo] != nil {
		return nil
	}
	if err := s.simple("SAVEPOINT sift"); err != nil {
		return err
	}
	err := s.write(lo, hi)
	if err == nil {
		return s.simple("RELEASE SAVEPOINT sift")
	}
	if pgconn.Row(err) == nil {
		return err
	}
	if err := s.simple("ROLLBACK TO SAVEPOINT sift; RELEASE SAVEPOINT sift"); err != nil {
		return err
	}
	if hi-lo > 1 {
		mid := lo + (hi-lo)/2
		if err := s.try(lo, mid); err != nil {
			return err
		}
		return s.try(mid, hi)
	}
	if s.found[s.chunk] == nil {
		s.found[s.chunk] = map[int]error{}
	}
	s.found[s.chunk][lo] = err
	if s.found.Len() > maxBad {
		return stream.Errorf(stream.Failed, "postgres.too_many_bad_rows", "look for bad rows", "", "the server refuses more than %d rows of one checkpoint; the last one: %w", maxBad, pgconn.Explain(err, "", "")).
			WithFix("compare columns: with the table, mend it and start the job again: no row is lost")
	}
	return nil
}

// write also asks for constraints that would otherwise speak at the end only.
func (s *sifter) write(lo, hi int) error {
	if err := s.w.write(s.ctx, s.c, s.v, lo, hi, s.found[s.chunk]); err != nil {
		return err
	}
	return s.simple("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
}

func (s *sifter) simple(sql string) error {
	_, err := s.c.Simple(s.ctx, sql)
	return err
}

// Rejects returns the bad rows as they are rejected, in the order of the epoch, without
// those that were known before.
func (b Bad) Rejects(rows *Rows, known Bad) (out []Rejected, err error) {
	if b.Len() == known.Len() {
		return nil, nil
	}
	err = rows.each(func(i int, v *view) error {
		for at := range v.rows {
			if cause := b[i][at]; cause != nil && known[i][at] == nil {
				out = append(out, reject(v.frame(at), v.topics, cause))
			}
		}
		return nil
	})
	return out, err
}

// Before returns the bad rows of an epoch and of a later one, whose rows are about to be
// joined to it.
func (b Bad) Before(rows *Rows, later Bad) Bad {
	out := Bad{}
	for i, m := range b {
		out[i] = m
	}
	for i, m := range later {
		out[len(rows.all())+i] = m
	}
	return out
}

// clone returns a copy that can be added to.
func (b Bad) clone() Bad {
	out := Bad{}
	for i, m := range b {
		out[i] = maps.Clone(m)
	}
	return out
}
