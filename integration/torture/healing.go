package torture

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// wideTopic is the number of partitions of the runs about skipped markers: the more
// there are, the longer a broker writes them.
const wideTopic = 64

// mostAimed is how many brokers are killed at most until a transaction hangs.
const mostAimed = 40

// commitAim is at the markers of a commit: as soon as the answer has come they are to
// be written. One kill of four to six is in time on an idle machine.
var commitAim = serverAim{point: "kafka.endtxn.after", hurts: true}

// UntilHealed kills brokers at the worst moment until the job had to write markers
// that a coordinator had skipped.
func (l *Life) UntilHealed(ctx context.Context) error {
	for n := 0; n < mostAimed && l.Tally.Counts[healedOnes] == 0 && l.OK(); n++ {
		if l.late() {
			return nil
		}
		if err := l.killServer(ctx, l.Broker.mortal(), commitAim); err != nil {
			return err
		}
	}
	if l.Tally.Counts[healedOnes] == 0 {
		l.Add(Alive, "%d aimed kills left no transaction that had to be healed", mostAimed)
	}
	return nil
}

// late reports whether the time for killing is over.
func (e *Episode) late() bool { return !e.Until.IsZero() && time.Now().After(e.Until) }

// UntilHanging kills brokers until a partition holds a transaction open that its
// coordinator calls complete: nobody will ever end it. With aborts the kills are
// aimed at the fence of a restart. It reports whether there was one before the time
// was over.
func (l *Life) UntilHanging(ctx context.Context, aborts bool) (n int, seen bool, err error) {
	for n = 1; n <= mostAimed && l.OK(); n++ {
		if l.late() {
			return n - 1, false, nil
		}
		if aborts {
			err = l.killAtFence(ctx)
		} else {
			err = l.killServer(ctx, l.Broker.mortal(), commitAim)
		}
		if err != nil {
			return n, false, err
		}
		hung, err := l.hanging(ctx, aborts)
		if err != nil || hung != "" {
			return n, true, err
		}
	}
	return n, true, nil
}

// killAtFence lets a worker die with an open transaction, and the broker at the
// moment when the next one has asked for its abort.
func (l *Life) killAtFence(ctx context.Context) error {
	if err := l.dieBy(ctx, aim{point: "kafka.flush.after", nth: 3 + l.r.IntN(3)}); err != nil || !l.OK() {
		return err
	}
	w, err := l.Start(fmt.Sprintf("kafka.endtxn.sent:%d:stop", 3+l.r.IntN(4)))
	if err != nil {
		return err
	}
	defer w.Kill()
	if !w.AwaitStopped(15 * time.Second) {
		return nil // the fence had less to do
	}
	if err := pause(ctx, time.Duration(l.r.Int64N(int64(4*time.Millisecond)))); err != nil {
		return err
	}
	if err := l.Broker.real.Kill(ctx); err != nil {
		return err
	}
	l.Tally.Add(brokerKills, 1)
	l.Tally.Add(brokerAimed, 1)
	w.Kill()
	l.dead(w)
	if err := l.Broker.real.Restart(ctx); err != nil {
		return err
	}
	return l.settle(ctx, 2)
}

// settle lets the job run until it has made n checkpoints, and kills it.
func (l *Life) settle(ctx context.Context, n int, args ...string) error {
	w, err := l.Start("", args...)
	if err != nil {
		return err
	}
	defer w.Kill()
	if !l.checkpoints(w, n) {
		l.Add(Alive, "no checkpoints with %v: %s", args, w.Ended())
	}
	w.Kill()
	l.dead(w)
	return ctx.Err()
}

// hanging names a partition that holds a transaction open which its coordinator
// calls complete: committed, or with aborts anything else. Markers may be on their way:
// what hangs is still there after a while.
func (l *Life) hanging(ctx context.Context, aborts bool) (found string, err error) {
	for _, wait := range []time.Duration{300 * time.Millisecond, 2 * time.Second} {
		if err := pause(ctx, wait); err != nil {
			return "", err
		}
		if found, err = l.openForEver(ctx, aborts); err != nil || found == "" {
			return "", err
		}
	}
	return found, nil
}

func (l *Life) openForEver(ctx context.Context, aborts bool) (found string, err error) {
	err = l.Broker.admin(func(adm *kadm.Client) error {
		ts, err := adm.ListTransactions(ctx, nil, nil)
		if err != nil {
			return err
		}
		state := map[int64]string{}
		for _, t := range ts {
			state[t.ProducerID] = t.State
		}
		var topics kadm.TopicsSet
		for _, topic := range l.job.Outs() {
			for p := range int32(l.Outs) {
				topics.Add(topic, p)
			}
		}
		ds, err := adm.DescribeProducers(ctx, topics)
		if err != nil {
			return err
		}
		ds.EachProducer(func(d kadm.DescribedProducer) {
			hung := state[d.ProducerID] == "CompleteCommit"
			if aborts {
				hung = state[d.ProducerID] == "CompleteAbort" || state[d.ProducerID] == "Empty"
			}
			if d.CurrentTxnStartOffset >= 0 && hung {
				found = fmt.Sprintf("producer %d epoch %d since offset %d of %s/%d", d.ProducerID, d.ProducerEpoch, d.CurrentTxnStartOffset, d.Topic, d.Partition)
			}
		})
		return nil
	})
	return found, err
}
