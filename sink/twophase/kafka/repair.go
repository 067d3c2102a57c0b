package kafka

import (
	"context"

	"etl/checkpoint"
	"etl/sink"
	"etl/sink/kafkatxn"
)

var _ sink.Repairer = (*Committer)(nil)

// IDOf names the transaction of a committable.
func (c *Committer) IDOf(cm *checkpoint.Committable) (string, error) {
	p, err := kafkatxn.Decode(cm)
	if err != nil {
		return "", err
	}
	return p.ID(), nil
}

// End commits or aborts a transaction that Inspect or Find has named.
func (c *Committer) End(ctx context.Context, id string, commit bool) error {
	return c.raw.End(ctx, id, commit)
}

// Find lists what is in doubt under transactional ids that begin with prefix.
func (c *Committer) Find(ctx context.Context, prefix string) ([]sink.InDoubt, error) {
	return c.raw.Find(ctx, prefix)
}
