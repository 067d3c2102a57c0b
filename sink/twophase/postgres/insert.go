package postgres

import (
	"context"

	"etl/internal/broken"
	"etl/internal/pgconn"
	"etl/sink/sqltxn"
)

// insert writes the rows once. A statement that failed is never tried again inside its
// transaction: the whole epoch is, or a bad row is looked for outside.
func (p *pending) insert(ctx context.Context, c *pgconn.Conn, bad sqltxn.Bad) error {
	write := func() error { return p.w.plan.target.Write(ctx, c, p.e.rows, bad) }
	if broken.Is(broken.RetryInTransaction) {
		return retried(ctx, c, write)
	}
	if err := write(); !tolerated(err) {
		return err
	}
	return nil
}

// tolerated is the negative control about the tag of PREPARE TRANSACTION: it also
// overlooks, as a driver might, the error that made the transaction fail.
func tolerated(err error) bool {
	return broken.Is(broken.PrepareTagUnchecked) && pgconn.Row(err) != nil
}

// retried is the negative control about statements that are tried again inside their
// transaction, behind a savepoint: what fails twice is then left out without a word.
func retried(ctx context.Context, c *pgconn.Conn, write func() error) error {
	for range 2 {
		if _, err := c.Exec(ctx, "SAVEPOINT again"); err != nil {
			return err
		}
		err := write()
		if pgconn.Row(err) == nil {
			return err
		}
		if _, err := c.Exec(ctx, "ROLLBACK TO SAVEPOINT again"); err != nil {
			return err
		}
	}
	return nil
}
