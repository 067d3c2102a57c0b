package kafkatxn

import (
	"context"
	"time"

	"etl/stream"
)

// SweepInterval is the time between two sweeps.
const SweepInterval = 30 * time.Second

// Sweep fences what a zombie opened under ids of attempts before own: a process that
// was stopped through the fence and goes on now publishes nothing and commits nothing,
// but its open transaction would hold readers back until it times out (I12).
func (c *Client) Sweep(ctx context.Context, own stream.Attempt, keep []*Payload) (swept int, err error) {
	listed, err := c.list(ctx, []string{stateOngoing})
	if err != nil {
		return 0, err
	}
	var ids []string
	for txid, t := range listed {
		// Brokers before 3.0 ignore the filter by state.
		if id, ok := c.o.Names.ours(txid); ok && id.Attempt < own && t.State == stateOngoing {
			ids = append(ids, txid)
		}
	}
	if len(ids) == 0 {
		return 0, nil
	}
	f, err := c.newFence(ctx, keep)
	if err != nil {
		return 0, err
	}
	return len(ids), f.all(ctx, ids)
}

// Sweeper sweeps in the background until ctx ends. A sweep that fails is only noted:
// the next one does the same.
func (c *Client) Sweeper(ctx context.Context, own stream.Attempt, keep []*Payload) {
	ticks := c.o.World.Clock.Ticker(SweepInterval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C():
		}
		n, err := c.Sweep(ctx, own, keep)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.o.World.Log.Warn("could not sweep transactions of earlier attempts", "err", err)
		case n > 0:
			c.o.World.Log.Warn("ended transactions that a stopped process of an earlier attempt had opened", "transactions", n)
		}
	}
}
