package kafkatxn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"etl/internal/broken"
	"etl/internal/fault"
	"etl/internal/kafkaconn"
	"etl/sink"
	"etl/stream"
)

// commitPatience bounds one Commit. After it the outcome is Transient and the lane asks
// again: it sees a restart of a broker as a few Transients.
const commitPatience = 30 * time.Second

// Commit commits the transaction of checkpoint id, from any process, and returns when
// readers can see it: EndTxn, verify, heal. An answer that proves nothing is resolved
// by the marker. Errors are about rights and configuration, and end the attempt.
func (c *Client) Commit(ctx context.Context, p *Payload, id stream.CheckpointID) (sink.Result, error) {
	whole, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	r, err := c.commit(whole, p, id)
	if err == nil || ctx.Err() != nil || stream.ClassOf(err) != stream.Retry {
		return r, err
	}
	// Whether it is worth while to wait: not for a topic that is gone.
	switch gone := c.remade(ctx, p); {
	case errors.Is(gone, errRemade):
		return sink.Result{Outcome: sink.Undecided, Detail: gone.Error()}, nil
	case gone != nil && stream.ClassOf(gone) != stream.Retry:
		return sink.Result{}, gone
	}
	return sink.Result{Outcome: sink.Transient, Detail: err.Error()}, nil
}

func (c *Client) commit(ctx context.Context, p *Payload, id stream.CheckpointID) (sink.Result, error) {
	v, err := c.EndTxn(ctx, p.Txn, true)
	switch v {
	case Done:
		if err != nil {
			return sink.Result{}, err
		}
		return c.visible(ctx, p, id, sink.Result{Outcome: sink.Done})
	case Final:
		if broken.Is(broken.FencedIsFatal) {
			return sink.Result{Outcome: sink.Lost, Detail: err.Error()}, nil
		}
		return c.resolve(ctx, p, id, err)
	}
	return sink.Result{}, err
}

// visible turns "committed" into "readers see it".
func (c *Client) visible(ctx context.Context, p *Payload, id stream.CheckpointID, r sink.Result) (sink.Result, error) {
	healed, err := c.verify(ctx, p, id)
	var hidden *hiddenError
	switch {
	case errors.As(err, &hidden):
		return sink.Result{Outcome: sink.NotVisible, Healed: healed, Detail: hidden.Error()}, nil
	case errors.Is(err, errRemade):
		return sink.Result{Outcome: sink.Undecided, Healed: healed, Detail: err.Error()}, nil
	case err != nil:
		return sink.Result{}, err
	}
	fault.Point("kafka.verified")
	r.Healed = healed
	return r, nil
}

// resolve finds out what became of a transaction that cannot be ended by its
// committable any more. cause is the broker's answer; it decides nothing.
func (c *Client) resolve(ctx context.Context, p *Payload, id stream.CheckpointID, cause error) (sink.Result, error) {
	s, err := c.describeOne(ctx, p.TxID)
	if err != nil {
		return sink.Result{}, err
	}
	detail := fmt.Sprintf("%v; %s", cause, s)
	switch {
	case s.open(p.Txn), s.committing(p.Txn):
		return sink.Result{Outcome: sink.Transient, Detail: detail}, nil
	case s.committed(p.Txn):
		return c.visible(ctx, p, id, sink.Result{Outcome: sink.Already, Detail: detail})
	}
	m, err := c.ReadMarker(ctx, p.Group, p.Topic)
	if err != nil {
		return sink.Result{}, err
	}
	fault.Point("kafka.recover.resolved")
	if m.Checkpoint >= id {
		return c.visible(ctx, p, id, sink.Result{Outcome: sink.Already, ByMarker: true, Detail: detail})
	}
	return c.unmarked(ctx, p, fmt.Sprintf("%s; the marker is %s (%s)", detail, m.Checkpoint, m.Note))
}

// unmarked decides between lost and unknown for a transaction without a marker.
func (c *Client) unmarked(ctx context.Context, p *Payload, detail string) (sink.Result, error) {
	why, err := c.doubt(ctx, p)
	if err != nil {
		return sink.Result{}, err
	}
	if why != "" {
		return sink.Result{Outcome: sink.Undecided, Detail: detail + "; " + why}, nil
	}
	return sink.Result{Outcome: sink.Lost, Detail: detail}, nil
}

// doubt returns why a missing marker proves nothing; "" when it proves the loss.
func (c *Client) doubt(ctx context.Context, p *Payload) (string, error) {
	if c.mayHaveExpired(p) {
		return fmt.Sprintf("a marker written at %s may have expired (offsets.retention %v)", p.Start().Format(time.RFC3339), c.Limits.OffsetsRetention), nil
	}
	if err := c.remade(ctx, p); errors.Is(err, errRemade) {
		return err.Error(), nil
	} else if err != nil {
		return "", err
	}
	hs, err := c.ours(ctx, p, keys(p.spots()))
	if err != nil && !kafkaconn.Refused(err) {
		return "", err
	}
	if s, ok, err := c.markerSpot(ctx, p.Group); err != nil {
		return "", err
	} else if ok && len(hs) == 0 {
		if hs, err = c.ours(ctx, p, []spot{s}); err != nil && !kafkaconn.Refused(err) {
			return "", err
		}
	}
	if len(hs) > 0 {
		// Its markers were skipped and its id was initialised since: whether they
		// would have been COMMIT or ABORT, nobody can tell any more.
		return fmt.Sprintf("%s and %d more partitions still hold it open", hs[0].spot, len(hs)-1), nil
	}
	return "", nil
}

// errRemade says that nobody will ever see a marker: what is deleted with a topic are the
// offsets committed for it, too.
var errRemade = errors.New("was deleted and made anew, and the marker with it")

// remade returns errRemade when the topic of the marker is not the one that was written
// to. It asks the cluster: what this client knows may be the topic of before.
func (c *Client) remade(ctx context.Context, p *Payload) error {
	if p.TopicID == (stream.TopicID{}) {
		return nil
	}
	info, err := c.readTopic(ctx, p.Topic)
	if err != nil || info.ID == p.TopicID {
		return err
	}
	return fmt.Errorf("topic %s %w", p.Topic, errRemade)
}

// ours returns the partitions that hold p's own transaction open.
func (c *Client) ours(ctx context.Context, p *Payload, spots []spot) ([]hanging, error) {
	hs, err := c.openOn(ctx, spots)
	n := 0
	for _, h := range hs {
		if h.pid == p.PID && h.epoch == p.Epoch {
			hs[n] = h
			n++
		}
	}
	return hs[:n], err
}

func keys(m map[spot]int64) []spot {
	out := make([]spot, 0, len(m))
	for s := range m {
		out = append(out, s)
	}
	return out
}

// unchecked reports whether this build was told not to look at markers: a negative
// control must go wrong where its rule is broken, and not before.
func unchecked() bool { return broken.Is(broken.MarkerOmitted) || broken.Is(broken.MarkerNotRead) }
