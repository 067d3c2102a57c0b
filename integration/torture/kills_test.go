package torture

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"etl/internal/kafkatest"
)

// roadsOf are the ways on which all jobs of a kind come.
func roadsOf(k Kind) []Road {
	roads := []Road{Steady, Aborting, Restart}
	if k == Count {
		roads = append(roads, Keyed, KeyedUp)
	}
	return roads
}

// count is how many kills an episode has.
func count(n int) int {
	if *killsFlag > 0 {
		return *killsFlag
	}
	return n
}

// episode is the usual one.
func episode(b *Broker, k Kind, dir string, seed uint64, n int) (*Episode, error) {
	bin, err := plainBinary()
	return &Episode{Broker: b, Binary: bin, Seed: seed, Kills: count(n), Job: JobConfig{Kind: k, Name: short(filepath.Base(dir))}, Points: onTheWay(roadsOf(k)...),
		Turn: int(seed % 1000), Until: suite.Until(), Scratch: true, Dir: dir}, err
}

func runEpisode(k Kind, n int, alter func(*Episode)) scenario {
	return func(ctx context.Context, b *Broker, dir string, seed uint64) (*Tally, Verdict, error) {
		e, err := episode(b, k, dir, seed, n)
		if err != nil {
			return nil, Verdict{}, err
		}
		if alter != nil {
			alter(e)
		}
		return e.Run(ctx)
	}
}

// Workers die at every point and at random times, on the in-process broker.
func TestKills(t *testing.T) {
	t.Parallel()
	rounds, each := 4, 45
	if testing.Short() {
		rounds, each = 1, 14
	}
	if *longFlag {
		rounds *= longer
	}
	for round := range rounds {
		for _, k := range Kinds {
			onFake(t, fmt.Sprintf("%s-%d", k, round), rankKills, runEpisode(k, each, func(e *Episode) {
				e.Turn = turn(k, round)
				bounced(e, k == Fan)
			}))
		}
	}
}

// turn is where a round begins: four rounds of a kind have a death at every point, each
// goes on where the last one left off, with some to spare for points that are missed.
// Another seed begins elsewhere, and so does another kind: few kills are not all on the
// same stretch.
func turn(k Kind, round int) int {
	n := len(onTheWay(roadsOf(k)...))
	return int(suite.Seed%uint64(n)) + round*((n+3)/4) + slices.Index(Kinds, k)*n/len(Kinds)
}

// bounced restarts the in-process broker now and then, in order, so that open
// transactions stay open.
func bounced(e *Episode, yes bool) {
	if !yes {
		return
	}
	n := 0
	e.Before = func(_ context.Context, l *Life) ([]string, error) {
		if n++; n%12 != 5 {
			return nil, nil
		}
		l.Tally.Add(brokerOrders, 1)
		return nil, e.Broker.Bounce()
	}
}

// The same on Kafka.
func TestKillsReal(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		onReal(t, "count-0", rankKills, runEpisode(Count, 9, nil))
		return
	}
	rounds := 2
	if *longFlag {
		rounds *= longer
	}
	for round := range rounds {
		for _, k := range Kinds {
			onReal(t, fmt.Sprintf("%s-%d", k, round), rankKills, runEpisode(k, 20, nil))
		}
	}
}

// Brokers die under the workers, most of them at EndTxn or its answer. On transaction
// version 1 a client's next transaction has the epoch of the last. A coordinator that
// dies at the wrong moment leaves transactions that it calls complete and that nobody
// sees; the job writes the markers then, and the controls that do not are noticed.
func TestDyingBrokers(t *testing.T) {
	t.Parallel()
	now, old := kafkatest.Config{}, kafkatest.Config{TransactionVersion: 1}
	if testing.Short() {
		onMortal(t, "kills under pass", rankKills, now, brokerKilling(Pass, 0, 1))
		return
	}
	for i, k := range Kinds {
		onMortal(t, "kills under "+string(k), rankKills, now, brokerKilling(k, i, 4))
	}
	onMortal(t, "kills with version 1", rankKills, old, brokerKilling(Pass, 0, 3))
	onMortal(t, "workers with version 1", rankProofs, old, runEpisode(Count, 15, nil))
	onMortal(t, "markers with version 1", rankProofs, old, uncooled(4))
	onMortal(t, "healing", rankRest, now, healing)
	onMortal(t, "control no-heal", rankRest, now, hangs("no-heal"))
	onMortal(t, "control no-clean", rankProofs, now, hangs("no-clean"))
}

func brokerKilling(k Kind, turn, n int) scenario {
	return living(k, func(ctx context.Context, l *Life) error {
		l.Turn = turn
		return l.KillServer(ctx, l.Broker.mortal(), n, brokerAims)
	})
}

// living is live on a job of a kind.
func living(k Kind, f func(ctx context.Context, l *Life) error) scenario {
	return func(ctx context.Context, b *Broker, dir string, seed uint64) (*Tally, Verdict, error) {
		e, err := episode(b, k, dir, seed, 0)
		if err != nil {
			return nil, Verdict{}, err
		}
		e.Scratch = false
		return e.live(ctx, f)
	}
}

// live does something to a job that is fed, then lets it drain and checks all.
func (e *Episode) live(ctx context.Context, f func(ctx context.Context, l *Life) error) (*Tally, Verdict, error) {
	l, err := e.Begin(ctx)
	if err != nil {
		return nil, Verdict{}, err
	}
	defer l.Close()
	if err = f(ctx, l); err == nil {
		err = l.Finish(ctx)
	}
	return l.Tally, *l.Verdict, err
}

// healing kills brokers until the job had to heal.
func healing(ctx context.Context, b *Broker, dir string, seed uint64) (*Tally, Verdict, error) {
	e, err := episode(b, Pass, dir, seed, 0)
	if err != nil {
		return nil, Verdict{}, err
	}
	e.Outs, e.Scratch, e.Until = wideTopic, false, suite.UntilRare()
	l, err := e.Begin(ctx)
	if err != nil {
		return nil, Verdict{}, err
	}
	defer l.Close()
	if err = l.UntilHealed(ctx); err == nil {
		err = l.Finish(ctx)
	}
	return l.Tally, *l.Verdict, err
}

// With two slots and no cooling, restarts find transactions whose ids were used
// again: only the marker tells what became of them.
func TestMarkers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		onFake(t, "kfake", rankKills, uncooled(2))
		return
	}
	onFake(t, "kfake", rankKills, uncooled(10))
	onReal(t, "kafka", rankProofs, uncooled(6))
}

func uncooled(n int) scenario {
	return func(ctx context.Context, b *Broker, dir string, seed uint64) (*Tally, Verdict, error) {
		e, err := episode(b, Pass, dir, seed, 0)
		if err != nil {
			return nil, Verdict{}, err
		}
		if e.Binary, err = brokenBinary(); err != nil {
			return nil, Verdict{}, err
		}
		e.Broken = "no-cooling"
		crowded(e)
		l, err := e.Begin(ctx)
		if err != nil {
			return nil, Verdict{}, err
		}
		defer l.Close()
		l.Tally.Add(twoSlots, 1)
		if err = l.Reuse(ctx, n); err == nil {
			err = l.Finish(ctx)
		}
		if err == nil && l.OK() && l.Tally.Counts[byMarker] == 0 {
			l.Add(Alive, "no transaction was resolved by its marker")
		}
		return l.Tally, *l.Verdict, err
	}
}

// State sixteen times as large as its memory, in the long run 1 GiB of it. It has to be
// above the 256 MiB of segments from which a base is materialized.
func TestBigState(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("in the full run")
	}
	big := BigState{Memory: "32MiB", Keys: 1 << 17, Wide: 512, Second: 20_000}
	if *longFlag {
		big = BigState{Memory: "64MiB", Keys: 1 << 18, Wide: 512, Second: 50_000}
	}
	onFake(t, "larger than memory", rankLong, func(ctx context.Context, b *Broker, dir string, seed uint64) (*Tally, Verdict, error) {
		e, err := episode(b, Count, dir, seed, 0)
		if err != nil {
			return nil, Verdict{}, err
		}
		e.Job.Interval, e.Scratch = 400_000_000, false
		tally, v, err := big.Run(ctx, e)
		tally.Add(bigStates, 1)
		return tally, v, err
	})
}
