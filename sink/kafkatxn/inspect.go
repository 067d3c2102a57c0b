package kafkatxn

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"etl/sink"
)

// Inspect lists what is in doubt under this job and sink, of any lineage, read-only.
func (c *Client) Inspect(ctx context.Context) ([]sink.InDoubt, error) {
	return c.inspect(ctx, c.o.Names.own(), func(txid string) bool {
		_, ours := c.o.Names.ParseTxID(txid)
		return ours
	})
}

// Find lists what is in doubt under transactional ids that begin with prefix, of any
// job, read-only.
func (c *Client) Find(ctx context.Context, prefix string) ([]sink.InDoubt, error) {
	prefix, _, _ = strings.Cut(prefix, "@") // of a name that Inspect has given
	return c.inspect(ctx, prefix, func(txid string) bool { return strings.HasPrefix(txid, prefix) })
}

func (c *Client) inspect(ctx context.Context, prefix string, wanted func(txid string) bool) ([]sink.InDoubt, error) {
	listed, err := c.listIDs(ctx, prefix, nil)
	if err != nil {
		return nil, err
	}
	var ids []string
	for txid, t := range listed {
		if wanted(txid) && (t.State == stateOngoing || (seen{state: t.State}).unsettled()) {
			ids = append(ids, txid)
		}
	}
	states, err := c.describe(ctx, ids...)
	if err != nil {
		return nil, err
	}
	var out []sink.InDoubt
	for txid, s := range states {
		if s.found && (s.state == stateOngoing || s.unsettled()) {
			out = append(out, c.inDoubt(txid, s))
		}
	}
	return sortInDoubt(out), nil
}

func (c *Client) inDoubt(txid string, s seen) sink.InDoubt {
	id, _ := c.o.Names.ParseTxID(txid)
	epoch := s.epoch
	if s.unsettled() && c.TV >= 2 {
		epoch-- // the end has raised it
	}
	d := sink.InDoubt{ID: doubtID(txid, s.pid, epoch), Attempt: id.Attempt, Subtask: id.Subtask, State: s.state}
	if !s.start.IsZero() {
		d.Age = c.o.World.Clock.Now().Sub(s.start)
	}
	if s.timeout > 0 && !s.start.IsZero() {
		d.Left = s.timeout - d.Age
	}
	d.Detail = fmt.Sprintf("lineage %s, slot %d, producer %d epoch %d, on %s, the broker gives it up %v after its start",
		id.Lineage8, id.Slot, s.pid, s.epoch, partitionList(s), s.timeout)
	return d
}

// doubtID names a transaction in lists. Ids are used again by later transactions; the
// producer's epoch tells them apart.
func doubtID(txid string, pid int64, epoch int16) string {
	return fmt.Sprintf("%s@%d.%d", txid, pid, epoch)
}

// ID names the transaction as Inspect does.
func (t Txn) ID() string { return doubtID(t.TxID, t.PID, t.Epoch) }

func partitionList(s seen) string {
	var parts []string
	for topic, ps := range s.parts {
		parts = append(parts, fmt.Sprintf("%s (%d partitions)", topic, len(ps)))
	}
	if len(parts) == 0 {
		return "no partition this job may see"
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

func sortInDoubt(ds []sink.InDoubt) []sink.InDoubt {
	slices.SortFunc(ds, func(a, b sink.InDoubt) int {
		return cmp.Or(cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Subtask, b.Subtask), cmp.Compare(a.ID, b.ID))
	})
	return ds
}
