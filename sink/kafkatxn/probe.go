package kafkatxn

import (
	"context"
	"fmt"
	"time"

	"etl/sink"
	"etl/stream"
)

// Probe looks at the transaction of checkpoint id without changing anything (V4).
// published is when the checkpoint that lists it was published.
func (c *Client) Probe(ctx context.Context, p *Payload, id stream.CheckpointID, published time.Time) (sink.Probed, error) {
	s, err := c.describeOne(ctx, p.TxID)
	if err != nil {
		return sink.Probed{}, err
	}
	m, err := c.ReadMarker(ctx, p.Group, p.Topic)
	if err != nil {
		return sink.Probed{}, err
	}
	r := sink.Probed{Marker: m.Checkpoint, Deadline: p.Deadline(), Detail: fmt.Sprintf("%s; the marker is %s", s, m.Checkpoint)}
	switch {
	case s.open(p.Txn):
		r.Status = sink.Open
	case s.committing(p.Txn), s.committed(p.Txn), m.Checkpoint >= id:
		r.Status = sink.Committed
	default:
		return c.probeUnmarked(ctx, p, published, r)
	}
	return r, nil
}

func (c *Client) probeUnmarked(ctx context.Context, p *Payload, published time.Time, r sink.Probed) (sink.Probed, error) {
	why, err := c.doubt(ctx, p)
	if err != nil {
		return r, err
	}
	r.Status = sink.Gone
	if why != "" {
		r.Status = sink.Unknown
		r.Detail += fmt.Sprintf("; %s (checkpoint published at %s)", why, published.Format(time.RFC3339))
	}
	return r, nil
}
