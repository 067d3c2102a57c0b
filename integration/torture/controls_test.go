package torture

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
)

// Each broken rule must be noticed, by the checker that is there for it, within the
// stated kills; with the rule kept the same torture finds nothing.
func TestControls(t *testing.T) {
	t.Parallel()
	for _, c := range Controls {
		if testing.Short() && !slices.Contains(everyday, c.Rules) {
			continue
		}
		onFake(t, c.Rules, rankProofs, func(ctx context.Context, b *Broker, dir string, seed uint64) (*Tally, Verdict, error) {
			return caught(t, &c, ctx, b, dir, seed)
		})
		if !testing.Short() {
			onFake(t, c.Rules+" kept", rankRest, func(ctx context.Context, b *Broker, dir string, seed uint64) (*Tally, Verdict, error) {
				bin, err := brokenBinary()
				if err != nil {
					return nil, Verdict{}, err
				}
				_, v, err := c.Run(ctx, b, bin, dir, seed, true)
				return nil, v, err
			})
		}
	}
}

func caught(t *testing.T, c *Control, ctx context.Context, b *Broker, dir string, seed uint64) (*Tally, Verdict, error) {
	bin, err := brokenBinary()
	if err != nil {
		return nil, Verdict{}, err
	}
	n, found, err := c.Run(ctx, b, bin, dir, seed, false)
	tally, v := NewTally(), Verdict{}
	if err == nil && !c.caught(found) {
		v.Add(Honest, "%s was not noticed by %v in %d kills, but: %s", c.Rules, c.Catch, n, found)
	}
	tally.Add(fmt.Sprintf("control %s: caught within kills", c.Rules), int64(n))
	tally.Add(controlsSeen, 1)
	t.Logf("%s: within %d kills, %v", c.Rules, n, found.Found)
	return tally, v, err
}

// hangs kills brokers until a transaction hangs, with a rule broken: without healing,
// and without cleaning, it holds readers back for ever.
func hangs(rule string) scenario {
	return func(ctx context.Context, b *Broker, dir string, seed uint64) (*Tally, Verdict, error) {
		bin, err := brokenBinary()
		if err != nil {
			return nil, Verdict{}, err
		}
		e := &Episode{Broker: b, Binary: bin, Broken: rule, Seed: seed, Until: suite.Until(), Job: JobConfig{Kind: Pass, Name: short(filepath.Base(dir))}, Outs: wideTopic, Dir: dir}
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
