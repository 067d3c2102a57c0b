package torture

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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
)

// Suite is a run of the harness: parts, each of which is done once, counted, and
// remembered.
type Suite struct {
	Seed uint64

	deadline time.Time // zero for none
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

// NewSuite reads flags and environment. The flags must have been parsed.
func NewSuite() (*Suite, error) {
	s := &Suite{Seed: *seedFlag, total: NewTally()}
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
	dir := filepath.Join(*stateFlag, fmt.Sprintf("%x-%d-%v", h.Sum(nil)[:6], *seedFlag, testing.Short()))
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

// mine reports whether a part belongs to this shard.
func mine(name string) bool {
	var i, n uint32
	if _, err := fmt.Sscanf(*shardFlag, "%d/%d", &i, &n); err != nil || n == 0 {
		return true
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return h.Sum32()%n == i
}

// seedOf is a part's own seed, so that it can be done alone.
func (s *Suite) seedOf(name string) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %s", s.Seed, name)
	return h.Sum64() % 1_000_000_000
}

// Scenario does one part, in a folder and with a seed of its own, and returns what was
// counted and found.
type Scenario func(ctx context.Context, dir string, seed uint64) (*Tally, Verdict, error)

// Part does one part, in parallel with others or alone among its siblings. A finding
// fails the test, and its folder stays.
func (s *Suite) Part(t *testing.T, name string, parallel bool, f Scenario) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		if parallel {
			t.Parallel()
		}
		p := part{Name: t.Name(), Tally: NewTally()}
		if !mine(p.Name) {
			t.Skip("of another shard")
		}
		if s.load(&p) {
			s.add(p)
			t.Log("done by an earlier run")
			return
		}
		if !s.deadline.IsZero() && time.Now().After(s.deadline) {
			p.left = true
			s.add(p)
			t.Skip("the budget of time is used up")
		}
		s.do(t, &p, f)
	})
}

func (s *Suite) do(t *testing.T, p *part, f Scenario) {
	t.Helper()
	begin, seed := time.Now(), s.seedOf(p.Name)
	dir := filepath.Join(s.dir, short(p.Name))
	tally, v, err := f(t.Context(), dir, seed)
	p.Took = time.Since(begin)
	if tally != nil {
		p.Tally = tally
	}
	if err != nil || !v.OK() {
		s.mu.Lock()
		s.keep = true
		s.mu.Unlock()
		t.Errorf("-seed %d, here %d: %s\n%v\nwhat it left is in %s", s.Seed, seed, v, err, dir)
		return
	}
	_ = os.RemoveAll(dir)
	s.add(*p)
	s.save(t, p)
}

// short makes a name for a folder and a job: letters, digits and '-', and not long.
func short(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.TrimPrefix(name, "Test"))
	return strings.TrimLeft(name[max(0, len(name)-40):], "-")
}

func (s *Suite) add(p part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = append(s.parts, p)
	s.total.Merge(p.Tally)
}

func (s *Suite) file(p *part) string { return filepath.Join(s.state, short(p.Name)+".json") }

func (s *Suite) load(p *part) bool {
	if s.state == "" {
		return false
	}
	b, err := os.ReadFile(s.file(p))
	p.earlier = err == nil && json.Unmarshal(b, p) == nil
	return p.earlier
}

func (s *Suite) save(t *testing.T, p *part) {
	if s.state == "" {
		return
	}
	b, err := json.Marshal(p)
	if err == nil {
		err = os.WriteFile(s.file(p), b, 0o600)
	}
	if err != nil {
		t.Errorf("remember the result: %v", err)
	}
}

// Report prints what the run came to.
func (s *Suite) Report(w io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(s.parts, func(a, b part) int { return cmp.Compare(b.Took, a.Took) })
	left, earlier := 0, 0
	for _, p := range s.parts {
		if p.left {
			left++
		}
		if p.earlier {
			earlier++
		}
	}
	fmt.Fprintf(w, "\ntorture: seed %d, %d parts, %d of them done by an earlier run, %d left for want of time\n%s", s.Seed, len(s.parts), earlier, left, s.total)
	for _, p := range s.parts[:min(5, len(s.parts))] {
		fmt.Fprintf(w, "  %-60s %v\n", p.Name, p.Took.Round(100*time.Millisecond))
	}
	if left > 0 {
		fmt.Fprintf(w, "  go on with the rest: ETL_TORTURE_STATE=DIR, the same in both runs, and -seed\n")
	}
}

// Complete reports whether everything was done, so that its counts can be judged.
func (s *Suite) Complete() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.keep && flag.Lookup("test.run").Value.String() == "" && *shardFlag == "" && *killsFlag == 0 &&
		!slices.ContainsFunc(s.parts, func(p part) bool { return p.left })
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
