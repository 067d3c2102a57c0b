package kafkatxn

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"etl/internal/kafkaconn"
	"etl/stream"
)

// preflightPatience is how long the coordinators of a new cluster, which makes its
// internal topics at the first question, are waited for.
const preflightPatience = 15 * time.Second

// Preflight tries, read-only, everything a commit and its verification will need of a
// lane, so that a missing right or a cluster that cannot hold its internal topics stops
// the job before its first record, by name.
func (c *Client) Preflight(ctx context.Context, subtask int, attempt stream.Attempt) error {
	ctx, cancel := context.WithTimeout(ctx, preflightPatience)
	defer cancel()
	if _, err := c.describeOne(ctx, c.o.Names.TxID(subtask, attempt, 0)); err != nil {
		return unavailable(err)
	}
	if _, err := c.ReadMarker(ctx, c.o.Names.Group(subtask), c.markerTopic()); err != nil {
		return unavailable(err)
	}
	for _, topic := range c.o.Topics {
		if _, err := c.openOnTopic(ctx, topic, map[int32]struct{}{0: {}}); err != nil {
			return err
		}
	}
	return nil
}

func unavailable(err error) error {
	if errors.Is(err, kerr.CoordinatorNotAvailable) {
		return kafkaconn.Explain(kerr.CoordinatorNotAvailable, "find coordinator")
	}
	return err
}
