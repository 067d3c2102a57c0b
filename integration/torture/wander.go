package torture

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// wander kills a job and restores, each time, the oldest checkpoint that is
// retained, duplicates accepted: the newer ones become an abandoned branch, and so
// does whatever the local base has of it. Rows are there again then, but in the end
// every key must have its true count.
func wander(ctx context.Context, l *Life) error {
	for _, dies := range []string{"", "log.append.abandoned.before", "", "log.append.abandoned.after"} {
		if err := l.settle(ctx, 5); err != nil || !l.OK() {
			return err
		}
		if err := l.fromOldest(ctx, dies); err != nil || !l.OK() {
			return err
		}
	}
	return l.recount(ctx)
}

// recount lets the job come to its end, and looks at the counts it came to.
func (l *Life) recount(ctx context.Context) error {
	if err := l.feed.Pause(ctx); err != nil {
		return err
	}
	w, err := l.Start("")
	if err != nil {
		return err
	}
	defer w.Kill()
	if err := l.DrainFully(ctx, w); err != nil {
		return err
	}
	return l.finalCounts(ctx)
}

// fromOldest starts from the oldest checkpoint, and kills the worker at a point or
// once it has made checkpoints.
func (l *Life) fromOldest(ctx context.Context, dies string) error {
	ids, err := l.retained(ctx)
	if err != nil || len(ids) < 2 {
		return fmt.Errorf("retained: %v, %w", ids, err)
	}
	args := []string{"--from", ids[len(ids)-1], "--accept-duplicates"}
	if dies != "" {
		w, err := l.Start(dies+":1:kill", args...)
		if err != nil {
			return err
		}
		if !w.Wait(ownerPatience) {
			l.Add(Alive, "a restore of an older checkpoint does not come to %s: %s", dies, w.Ended())
		}
		w.Kill()
		l.Tally.Add(killAt+dies, 1)
		l.dead(w)
		return nil
	}
	return l.settle(ctx, 3, args...)
}

// finalCounts checks of every key that its highest count and sum are those of the
// input.
func (l *Life) finalCounts(ctx context.Context) error {
	all, err := l.Broker.ReadAll(ctx, l.job.In(), l.job.Outs()[0])
	if err != nil {
		return err
	}
	a := newAudit(l.Verdict, l.maker, l.job.In(), all[l.job.In()], nil)
	got := map[string]standing{}
	for _, recs := range all[l.job.Outs()[0]] {
		for _, r := range recs {
			l.highest(r, got)
		}
	}
	a.stand(got)
	return nil
}

func (l *Life) highest(r *kgo.Record, got map[string]standing) {
	v, err := countIn(r)
	if err != nil {
		l.Add(Stranger, "row %d/%d: %v", r.Partition, r.Offset, err)
		return
	}
	if v.C > got[v.Key].count {
		got[v.Key] = standing{count: v.C, sum: v.Sum}
	}
}
