package torture

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"etl/internal/pgtest"
)

// Each broken rule must be noticed, by the checker that is there for it, within the
// stated kills; with the rule kept the same torture finds nothing.
func TestControls(t *testing.T) {
	t.Parallel()
	for _, c := range Controls {
		if !testing.Short() || slices.Contains(everyday, c.Rules) {
			control(t, &c, nil, !testing.Short())
		}
	}
}

// The same for jobs that write tables. Those that die at the same places have one run in
// common with the rule kept.
func TestTableControls(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("in the full run")
	}
	for _, c := range TableControls {
		control(t, &c, sharedServer(t), c.Rules == "commit-before-publish" || c.Rules == "no-commit-on-recovery")
	}
}

func control(t *testing.T, c *Control, server *pgtest.Server, kept bool) {
	t.Helper()
	run := func(ctx context.Context, b *Broker, dir string, seed uint64, healthy bool) (int, Verdict, error) {
		bin, err := brokenBinary()
		if err != nil {
			return 0, Verdict{}, err
		}
		return c.Run(ctx, b, server, bin, dir, seed, healthy)
	}
	onFake(t, c.Name(), rankProofs, func(ctx context.Context, b *Broker, dir string, seed uint64) (*Tally, Verdict, error) {
		n, found, err := run(ctx, b, dir, seed, false)
		tally, v := NewTally(), Verdict{}
		if err == nil && !c.caught(found) {
			v.Add(Honest, "%s was not noticed by %v in %d kills, but: %s", c.Name(), c.Catch, n, found)
		}
		tally.Add(fmt.Sprintf("control %s: caught within kills", c.Name()), int64(n))
		tally.Add(controlsSeen, 1)
		t.Logf("%s: within %d kills, %v", c.Name(), n, found.Found)
		return tally, v, err
	})
	if !kept {
		return
	}
	onFake(t, c.Name()+" kept", rankRest, func(ctx context.Context, b *Broker, dir string, seed uint64) (*Tally, Verdict, error) {
		_, v, err := run(ctx, b, dir, seed, true)
		return nil, v, err
	})
}

// hangs kills brokers until a transaction hangs, with a rule broken: without healing,
// and without cleaning, it holds readers back for ever.
func hangs(rule string) scenario {
	return func(ctx context.Context, b *Broker, dir string, seed uint64) (*Tally, Verdict, error) {
		bin, err := brokenBinary()
		if err != nil {
			return nil, Verdict{}, err
		}
		e := &Episode{Broker: b, Binary: bin, Broken: rule, Seed: seed, Until: suite.UntilRare(), Job: JobConfig{Kind: Pass, Name: short(filepath.Base(dir))}, Outs: wideTopic, EndIn: 45 * time.Second, Dir: dir}
		l, err := e.Begin(ctx)
		if err != nil {
			return nil, Verdict{}, err
		}
		defer l.Close()
		n, seen, err := l.UntilHanging(ctx, rule == "no-clean")
		tally, v := NewTally(), Verdict{}
		tally.Add(brokerKills, l.Tally.Counts[brokerKills])
		tally.Add(brokerAimed, l.Tally.Counts[brokerAimed])
		if err == nil && !seen {
			return tally, v, errLate
		}
		if err == nil && l.OK() {
			err = l.Finish(ctx)
		}
		if err == nil && l.Found[Leftovers]+l.Found[Missing]+l.Found[Reader] == 0 {
			v.Add(Honest, "%s was not noticed after %d kills of brokers, but: %s", rule, n, l.Verdict)
		}
		tally.Add(fmt.Sprintf("control %s: caught within kills of brokers", rule), int64(n))
		tally.Add(controlsHung, 1)
		return tally, v, err
	}
}
