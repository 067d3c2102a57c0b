package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"etl/checkpoint"
	"etl/internal/pgconn"
	"etl/sink"
	"etl/sink/sqltxn"
	"etl/stream"
)

var _ sink.Repairer = (*Committer)(nil)

// IDOf names the prepared transaction or the staged rows of a committable.
func (c *Committer) IDOf(cm *checkpoint.Committable) (string, error) {
	p, err := decode(cm)
	switch {
	case err != nil:
		return "", err
	case p.prepared != nil:
		return p.prepared.GID, nil
	}
	s := sqltxn.StagedSet{Lineage: c.env.Lineage.String(), Subtask: cm.Subtask, Checkpoint: cm.Checkpoint}
	return s.ID(c.bookOf(p)), nil
}

// End commits or rolls back a prepared transaction of any job, or drops staged rows of
// this one. Staged rows are committed by what the checkpoint says of them only.
func (c *Committer) End(ctx context.Context, id string, commit bool) error {
	return c.with(ctx, func(conn *pgconn.Conn) error {
		if !strings.HasPrefix(id, sqltxn.GIDPrefix) {
			return c.endStaged(ctx, conn, id, commit)
		}
		var err error
		if commit {
			err = conn.CommitPrepared(ctx, id, "postgres.end.sent")
		} else {
			err = conn.RollbackPrepared(ctx, id)
		}
		if stream.CodeOf(err) == pgconn.CodeNoSuchPrepared {
			return nil // it has been ended
		}
		return err
	})
}

func (c *Committer) endStaged(ctx context.Context, conn *pgconn.Conn, id string, commit bool) error {
	if commit {
		return stream.Errorf(stream.BadConfig, "txn.no_force", "commit", id, "staged rows can be merged only as the checkpoint that lists them says").
			WithFix("etl txn commit without --force, or etl run")
	}
	sets, err := c.id.book.Sets(ctx, conn)
	if err != nil {
		return err
	}
	for _, s := range sets {
		if s.ID(c.id.book) == id {
			return c.id.book.DropSet(ctx, conn, s, c.cfg.LockTimeout)
		}
	}
	return nil
}

// Find lists the prepared transactions of the database whose gid begins with prefix.
func (c *Committer) Find(ctx context.Context, prefix string) (out []sink.InDoubt, err error) {
	err = c.with(ctx, func(conn *pgconn.Conn) error {
		all, err := conn.ListPrepared(ctx, prefix)
		for _, t := range all {
			out = append(out, sink.InDoubt{ID: t.GID, State: "prepared", Age: t.Age.Round(time.Millisecond), Detail: fmt.Sprintf("owner %s", t.Owner)})
		}
		return err
	})
	return out, err
}
