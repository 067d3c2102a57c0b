package torture

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// Two owners of one job: one stopped at a point, one that took over, and the first
// one awake again.
func TestZombies(t *testing.T) {
	t.Parallel()
	n := 0
	for _, p := range Points {
		if !p.Frozen {
			continue
		}
		n++
		if !testing.Short() || p.Name == "log.append.checkpoint.before" {
			onFake(t, p.Name, rankProofs, zombie(p, Kinds[n%len(Kinds)]))
		}
	}
}

func TestZombiesReal(t *testing.T) {
	t.Parallel()
	n := 0
	for _, p := range Points {
		// Where the broker has no part the in-process one does as well.
		if !p.Frozen || !strings.HasPrefix(p.Name, "kafka.") && p.Name != "checkpoint.published" {
			continue
		}
		n++
		if !testing.Short() || p.Name == "kafka.endtxn.before" {
			onReal(t, p.Name, rankRest, zombie(p, Kinds[n%len(Kinds)]))
		}
	}
}

func zombie(p Point, k Kind) scenario {
	return func(ctx context.Context, b *Broker, dir string, seed uint64) (*Tally, Verdict, error) {
		e, err := episode(b, k, dir, seed, 0)
		if err != nil {
			return nil, Verdict{}, err
		}
		e.Even = p.Recovers() // so that something is in doubt
		l, err := e.Begin(ctx)
		if err != nil {
			return nil, Verdict{}, err
		}
		defer l.Close()
		nth := 1
		if !p.Recovers() {
			nth = 3 + l.r.IntN(5)
		}
		err = l.Zombie(ctx, p, nth)
		return l.Tally, *l.Verdict, err
	}
}

// A start that is refused changes nothing, and the next right one is exact.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, r := range Refusals {
		if !testing.Short() || r.Name == "foreign lineage" || r.Name == "marker ahead" {
			onFake(t, r.Name, rankKills, refusal(r))
		}
		if !testing.Short() {
			onReal(t, "real "+r.Name, rankRest, refusal(r))
		}
	}
}

func refusal(r Refusal) scenario {
	return func(ctx context.Context, b *Broker, dir string, seed uint64) (*Tally, Verdict, error) {
		e, err := episode(b, r.Kind, dir, seed, 0)
		if err != nil {
			return nil, Verdict{}, err
		}
		e.Scratch, e.Even = false, true
		l, err := e.Begin(ctx)
		if err != nil {
			return nil, Verdict{}, err
		}
		defer l.Close()
		err = l.Refuse(ctx, r)
		return l.Tally, *l.Verdict, err
	}
}

// Whoever accepts duplicates gets them, and exact counts all the same.
func TestOlderCheckpoints(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("in the full run")
	}
	onFake(t, "accepted duplicates", rankProofs, func(ctx context.Context, b *Broker, dir string, seed uint64) (*Tally, Verdict, error) {
		e, err := episode(b, Count, dir, seed, 0)
		if err != nil {
			return nil, Verdict{}, err
		}
		l, err := e.Begin(ctx)
		if err != nil {
			return nil, Verdict{}, err
		}
		defer l.Close()
		err = wander(ctx, l)
		return l.Tally, *l.Verdict, err
	})
}

// A cancelled job that deletes its checkpoints dies on the way.
func TestClosing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("in the full run")
	}
	for _, p := range onTheWay(Closing) {
		onFake(t, p.Name, rankProofs, untilCounted(killAt+p.Name, func(ctx context.Context, b *Broker, dir string, seed uint64) (*Tally, Verdict, error) {
			e, err := episode(b, Fan, dir, seed, 0)
			if err != nil {
				return nil, Verdict{}, err
			}
			e.Job.Delete, e.Scratch = true, false
			l, err := e.Begin(ctx)
			if err != nil {
				return nil, Verdict{}, err
			}
			defer l.Close()
			err = l.CloseJob(ctx, p.Name)
			return l.Tally, *l.Verdict, err
		}))
	}
}

// untilCounted does something again, with another job and seed, until it has come to what
// is wanted: whether it does hangs on what was in doubt at that moment.
func untilCounted(wanted string, f scenario) scenario {
	return func(ctx context.Context, b *Broker, dir string, seed uint64) (*Tally, Verdict, error) {
		all := NewTally()
		for try := range uint64(4) {
			tally, v, err := f(ctx, b, fmt.Sprintf("%s-%d", dir, try), seed+try)
			if tally != nil {
				all.Merge(tally)
			}
			if err != nil || !v.OK() || all.Counts[wanted] > 0 {
				return all, v, err
			}
		}
		return all, Verdict{}, nil
	}
}
