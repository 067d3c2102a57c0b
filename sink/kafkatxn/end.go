package kafkatxn

import (
	"context"
	"strings"

	"etl/stream"
)

// End ends the open transaction that Inspect or Find calls id, for a person who has
// decided so: it asks nobody whether that is right. What is not open any more is left
// as it is.
func (c *Client) End(ctx context.Context, id string, commit bool) error {
	txid, _, _ := strings.Cut(id, "@")
	s, err := c.describeOne(ctx, txid)
	switch {
	case err != nil:
		return err
	case !s.found || s.state != stateOngoing || doubtID(txid, s.pid, s.epoch) != id:
		return nil
	case !commit:
		_, err := c.initProducer(ctx, txid) // aborts what is open, and fences its producer
		return err
	}
	// The version is that of the cluster now; a transaction from before an upgrade is
	// refused by its epoch rather than ended twice.
	v, err := c.EndTxn(ctx, Txn{TxID: txid, PID: s.pid, Epoch: s.epoch, TV: c.TV}, true)
	if v == Done || err != nil {
		return err
	}
	return stream.Errorf(stream.Failed, "kafka.not_ended", "commit", txid, "the broker refuses to commit it: %s", s)
}
