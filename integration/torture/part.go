package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

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

// The ranks of parts: the kills that are counted come first, then the proofs one by
// one, then the rest.
const (
	rankLong = iota // takes long, and must not begin last
	rankKills
	rankProofs
	rankRest
)

// Part does one part when it has a place in the lane. A finding fails the test, and its
// folder stays; a part for which there is no time does not.
func (s *Suite) Part(t *testing.T, name string, in *lane, rank int, f Scenario) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		p := part{Name: t.Name(), Tally: NewTally()}
		if !mine(p.Name) {
			t.Skip("of another shard")
		}
		if s.load(&p) {
			s.add(p)
			t.Log("done by an earlier run")
			return
		}
		if err := in.enter(t.Context(), rank); err != nil {
			t.Fatal(err)
		}
		defer in.leave()
		ctx := t.Context()
		if !s.deadline.IsZero() {
			if time.Now().After(s.Until()) {
				s.leave(t, p)
			}
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadlineCause(ctx, s.deadline.Add(-lastChecks), errLate)
			defer cancel()
		}
		s.do(ctx, t, &p, f)
	})
}

// leave notes that a part is not done, or not to its end.
func (s *Suite) leave(t *testing.T, p part) {
	t.Helper()
	p.left = true
	s.add(p)
	t.Skip(errLate)
}

func (s *Suite) do(ctx context.Context, t *testing.T, p *part, f Scenario) {
	t.Helper()
	begin, seed := time.Now(), s.seedOf(p.Name)
	dir := filepath.Join(s.dir, short(p.Name))
	tally, v, err := f(ctx, dir, seed)
	p.Took = time.Since(begin)
	// Who was interrupted did not come to its end in time: that says nothing.
	if late := errors.Is(err, errLate) || errors.Is(context.Cause(ctx), errLate); late && len(v.Found) == v.count(Alive) {
		_ = os.RemoveAll(dir)
		s.leave(t, *p)
	}
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
