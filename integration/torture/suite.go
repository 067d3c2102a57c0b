package torture

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

// The flags, which follow -args, and the variables that stand for them.
var (
	seedFlag  = flag.Uint64("seed", 0, "seed of all drawings; 0: a new one, which is printed")
	killsFlag = flag.Int("kills", 0, "kills of each episode instead of the usual number")
	shardFlag = flag.String("shard", os.Getenv("ETL_TORTURE_SHARD"), "i/n: only the i-th of n parts, from 0")
	stateFlag = flag.String("state", os.Getenv("ETL_TORTURE_STATE"), "folder of what is done already: the rest is done next time")
	longFlag  = flag.Bool("long", os.Getenv("ETL_TORTURE_LONG") != "", "the long run: four times the kills, and 1 GiB of state")
)

// Suite is a run of the harness: parts, each of which is done once, counted, and
// remembered.
type Suite struct {
	Seed uint64

	deadline time.Time // zero for none
	places   *lane     // of workers, which mostly wait for their interval
	mortals  *lane     // of brokers that may die: one that starts needs a processor
	dir      string    // of everything that is made
	state    string    // "" to remember nothing
	keep     bool      // something was found: its folder stays

	mu    sync.Mutex
	total *Tally
	parts []part
}

// part is what a part came to.
type part struct {
	Name    string        `json:"name"`
	Tally   *Tally        `json:"tally"`
	Took    time.Duration `json:"took"`
	left    bool          // not done for want of time
	earlier bool          // done by an earlier run
}

// The last part of the budget: in the first stretch of it nobody dies any more and what
// runs comes to its end, in the second one it is given up.
const (
	lastKills  = 75 * time.Second
	lastChecks = 15 * time.Second
)

// errLate ends a part that is not done for want of time.
var errLate = errors.New("the budget of time is used up")

// Until is when no worker and no broker is killed any more; zero for never.
func (s *Suite) Until() time.Time {
	if s.deadline.IsZero() {
		return s.deadline
	}
	return s.deadline.Add(-lastKills)
}

// luck is how long a part may kill until something rare has happened, when time is
// bounded: the parts behind it want their turn.
const luck = 4 * time.Minute

// UntilRare is Until for the parts that wait for something rare.
func (s *Suite) UntilRare() time.Time {
	at := s.Until()
	if soon := time.Now().Add(luck); !at.IsZero() && soon.Before(at) {
		return soon
	}
	return at
}

// atOnce is how many parts run at once.
var atOnce = min(runtime.GOMAXPROCS(0)+2, 6)

// longer is how many times as many rounds of kills the long run has.
const longer = 4

// NewSuite reads flags and environment. The flags must have been parsed.
func NewSuite() (*Suite, error) {
	s := &Suite{Seed: *seedFlag, total: NewTally(), places: newLane(atOnce), mortals: newLane(1)}
	if s.Seed == 0 {
		s.Seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	if v := os.Getenv("ETL_TORTURE_BUDGET"); v != "" && !testing.Short() {
		d, err := time.ParseDuration(v)
		if err != nil {
			return nil, fmt.Errorf("ETL_TORTURE_BUDGET: %w", err)
		}
		s.deadline = time.Now().Add(d)
	}
	var err error
	if s.dir, err = os.MkdirTemp("", "etl-torture-"); err != nil {
		return nil, err
	}
	if *stateFlag != "" {
		s.state, err = s.stateDir()
	}
	return s, err
}

// stateDir is where this binary's results are remembered: another one has to prove
// itself anew.
func (s *Suite) stateDir() (string, error) {
	bin, err := plainBinary()
	if err != nil {
		return "", err
	}
	f, err := os.Open(bin)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	dir := filepath.Join(*stateFlag, fmt.Sprintf("%x-%d-%v-%v", h.Sum(nil)[:6], *seedFlag, testing.Short(), *longFlag))
	return dir, os.MkdirAll(dir, 0o700)
}

// plainBinary and brokenBinary build the worker, once each.
var (
	plainBinary  = sync.OnceValues(func() (string, error) { return build("etl") })
	brokenBinary = sync.OnceValues(func() (string, error) { return build("etl-broken", "-tags", "broken") })
	binaries     = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "etl-torture-bin-") })
)

func build(name string, flags ...string) (string, error) {
	dir, err := binaries()
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, name)
	cmd := exec.Command("go", append(append([]string{"build", "-o", out}, flags...), "etl/cmd/etl")...)
	if b, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the worker: %w\n%s", err, b)
	}
	return out, nil
}

// Close removes what the run has made, unless something was found.
func (s *Suite) Close() error {
	dir, err := binaries()
	err = errors.Join(err, os.RemoveAll(dir))
	if s.keep {
		return err
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}
