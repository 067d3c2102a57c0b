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
	listed, err := c.list(ctx, nil)
	if err != nil {
		return nil, err
	}
	var ids []string
	for txid, t := range listed {
		if _, ok := c.o.Names.ParseTxID(txid); ok && (t.State == stateOngoing || (seen{state: t.State}).unsettled()) {
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
	d := sink.InDoubt{ID: txid, Attempt: id.Attempt, Subtask: id.Subtask, State: s.state}
	if !s.start.IsZero() {
		d.Age = c.o.World.Clock.Now().Sub(s.start)
	}
	d.Detail = fmt.Sprintf("lineage %s, slot %d, producer %d epoch %d, on %s, the broker gives it up %v after its start",
		id.Lineage8, id.Slot, s.pid, s.epoch, partitionList(s), s.timeout)
	return d
}

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
