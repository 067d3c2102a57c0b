package kafkatxn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"etl/internal/broken"
	"etl/internal/fault"
	"etl/internal/kafkaconn"
	"etl/stream"
)

// hiddenError says that rows are committed, readers cannot see them, and a right to
// repair it is missing.
type hiddenError struct {
	missing kafkaconn.Access
	err     error
}

func (e *hiddenError) Error() string { return fmt.Sprintf("%v; grant %s", e.err, e.missing) }

func (e *hiddenError) Unwrap() error { return e.err }

// quietRounds is how many looks with ordinary rights come before the partitions are
// asked: the markers of a healthy commit arrive within 10 to 40 ms.
const quietRounds = 4

// verification is one committed transaction on its way to being visible.
type verification struct {
	c       *Client
	p       *Payload
	id      stream.CheckpointID
	waiting map[spot]int64 // partitions not proven visible, with the last offset
	marked  bool
	healed  bool
	denied  *hiddenError // a question that was refused; decides only when patience is over
}

// verify returns when every row and the marker of a committed transaction are visible,
// writing the markers its coordinator skipped (KAFKA-20734). It gives up with ctx.
func (c *Client) verify(ctx context.Context, p *Payload, id stream.CheckpointID) (healed bool, err error) {
	if broken.Is(broken.NoHeal) {
		return false, nil
	}
	v := &verification{c: c, p: p, id: id, waiting: p.spots(), marked: unchecked()}
	for round, wait := 0, 2*time.Millisecond; ; round, wait = round+1, min(2*wait, 200*time.Millisecond) {
		err := v.look(ctx)
		if err == nil && !v.proven() && round >= quietRounds {
			err = v.askFurther(ctx)
		}
		if err != nil {
			return v.healed, v.gaveUp(ctx, err)
		}
		if v.proven() {
			return v.healed, nil
		}
		if c.o.World.Clock.Sleep(ctx, wait) != nil {
			return v.healed, v.gaveUp(ctx, noAnswer(ctx, "verify "+v.p.TxID, v.unproven()))
		}
	}
}

// proven says that every row and the marker were seen to be visible.
func (v *verification) proven() bool { return v.marked && len(v.waiting) == 0 }

// askFurther asks the partitions, and whether the topic is still the one that was written to.
func (v *verification) askFurther(ctx context.Context) error {
	if err := v.askPartitions(ctx); err != nil || v.marked {
		return err
	}
	return v.c.remade(ctx, v.p)
}

// gaveUp returns why the commit is not proven visible: a right that is missing, when
// patience was over, whether in a pause or in the middle of a question. Somebody who stops
// the job is no reason to call it hidden.
func (v *verification) gaveUp(ctx context.Context, err error) error {
	if v.denied != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return v.denied
	}
	return err
}

func (v *verification) unproven() error {
	return fmt.Errorf("%d partitions not seen to be complete, marker seen: %v", len(v.waiting), v.marked)
}

// look uses ordinary rights: a last stable offset beyond ours, and the marker.
func (v *verification) look(ctx context.Context) error {
	if len(v.waiting) > 0 {
		ends, err := v.c.stableEnds(ctx, keys(v.waiting))
		if err != nil {
			return err
		}
		for s, end := range ends {
			if end > v.waiting[s] {
				delete(v.waiting, s)
			}
		}
	}
	if !v.marked {
		m, err := v.c.ReadMarker(ctx, v.p.Group, v.p.Topic)
		if err != nil {
			return err
		}
		v.marked = m.Checkpoint >= v.id
	}
	return nil
}

// askPartitions tells a last stable offset that somebody else's transaction holds back
// from one that ours does, and heals the latter. The coordinator is asked before and
// after the partitions: only what hangs while it says "complete" is healed.
func (v *verification) askPartitions(ctx context.Context) error {
	before, err := v.c.describeOne(ctx, v.p.TxID)
	if err != nil || before.committing(v.p.Txn) {
		return err // it writes the markers itself, as soon as it can
	}
	refused := v.denied
	v.denied = nil
	hs, err := v.held(ctx)
	if err != nil {
		if v.denied == nil {
			v.denied = refused // this time nobody answered
		}
		return err
	}
	after, err := v.c.describeOne(ctx, v.p.TxID)
	if err != nil || after.committing(v.p.Txn) || after.open(v.p.Txn) {
		return err
	}
	if len(hs) == 0 {
		return nil
	}
	fault.Point("kafka.heal.before")
	if err := v.c.write(ctx, hs, true); err != nil {
		if kafkaconn.Refused(err) {
			return &hiddenError{kafkaconn.Access{Kind: kafkaconn.Cluster, Operation: "CLUSTER_ACTION or ALTER"}, err}
		}
		return err
	}
	v.healed = true
	v.c.o.World.Log.Warn("wrote commit markers that the transaction coordinator had skipped (KAFKA-20734)",
		"transactional_id", v.p.TxID, "producer_id", v.p.PID, "epoch", v.p.Epoch, "partitions", len(hs))
	return nil
}

// held returns the partitions that hold our transaction open, the marker's included.
// Those of v.waiting that do not are proven visible: somebody else's transaction holds
// back the readers there.
func (v *verification) held(ctx context.Context) (all []hanging, err error) {
	for topic, parts := range byTopic(keys(v.waiting)) {
		var spots []spot
		for n := range parts {
			spots = append(spots, spot{topic, n})
		}
		hs, err := v.c.ours(ctx, v.p, spots)
		if err = v.deny(err, topic); err != nil {
			return nil, err
		}
		if v.denied != nil {
			continue
		}
		for _, s := range spots {
			if !covers(hs, s) {
				delete(v.waiting, s)
			}
		}
		all = append(all, hs...)
	}
	if v.marked {
		return all, nil
	}
	s, ok, err := v.c.markerSpot(ctx, v.p.Group)
	if err != nil || !ok {
		return all, err
	}
	hs, err := v.c.ours(ctx, v.p, []spot{s})
	return append(all, hs...), v.deny(err, offsetsTopic)
}

func covers(hs []hanging, s spot) bool {
	for _, h := range hs {
		if h.spot == s {
			return true
		}
	}
	return false
}

// deny notes a refusal and lets the other evidence speak on; other errors stay.
func (v *verification) deny(err error, topic string) error {
	if err == nil || !kafkaconn.Refused(err) {
		return err
	}
	v.denied = &hiddenError{kafkaconn.Access{Kind: kafkaconn.Topic, Name: topic, Operation: "READ"}, err}
	return nil
}
