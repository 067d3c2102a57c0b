package torture

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"etl/internal/kafkatest"
	"etl/internal/testservice"
)

var (
	suite *Suite
	tv1   testservice.Shared[*kafkatest.Server]
)

func TestMain(m *testing.M) {
	if os.Getenv(fakeEnv) != "" {
		if err := FakeBroker(); err != nil {
			fmt.Fprintln(os.Stderr, "in-process broker:", err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	// All parts wait for a place of the suite's, not for one of package testing.
	if err := flag.Set("test.parallel", "1000"); err != nil {
		panic(err)
	}
	var err error
	if suite, err = NewSuite(); err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(1)
	}
	os.Exit(finish(kafkatest.Runner(tv1.Runner(tableServer.Runner(m))).Run()))
}

// finish judges the counts of the whole run.
func finish(code int) int {
	suite.Report(os.Stdout)
	if suite.Whole() && !suite.Judge(os.Stdout, testing.Short(), *longFlag) {
		code = max(code, 1)
	}
	if err := suite.Close(); err != nil {
		fmt.Println("torture:", err)
	}
	return code
}

// scenario is what a part does with a broker.
type scenario func(ctx context.Context, b *Broker, dir string, seed uint64) (*Tally, Verdict, error)

// onFake runs a part on an in-process broker of its own.
func onFake(t *testing.T, name string, rank int, f scenario) {
	t.Helper()
	suite.Part(t, name, suite.places, rank, func(ctx context.Context, dir string, seed uint64) (*Tally, Verdict, error) {
		b, err := StartFake(fmt.Sprintf("canary-of-the-password-%d", seed))
		if err != nil {
			return nil, Verdict{}, err
		}
		defer b.Stop() //nolint:errcheck // it has nothing to lose
		return f(ctx, b, dir, seed)
	})
}

// onReal runs a part on the real broker that all share; nobody kills it.
func onReal(t *testing.T, name string, rank int, f scenario) {
	t.Helper()
	s := kafkatest.Shared(t)
	suite.Part(t, name, suite.places, rank, func(ctx context.Context, dir string, seed uint64) (*Tally, Verdict, error) {
		return f(ctx, OnReal(s.Server), dir, seed)
	})
}

// onMortal runs a part on a real broker of its own, which may be killed.
func onMortal(t *testing.T, name string, rank int, cfg kafkatest.Config, f scenario) {
	t.Helper()
	cfg.Via = testservice.ViaProcess
	suite.Part(t, name, suite.mortals, rank, func(ctx context.Context, dir string, seed uint64) (*Tally, Verdict, error) {
		s, err := kafkatest.Run(ctx, cfg)
		if err != nil {
			return nil, Verdict{}, err
		}
		defer s.Stop() //nolint:errcheck // it has nothing to lose
		tally, v, err := f(ctx, OnReal(s), dir, seed)
		if tally != nil && cfg.TransactionVersion == 1 {
			tally.Add(oldVersion, 1)
		}
		return tally, v, err
	})
}
