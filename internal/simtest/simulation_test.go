package simtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"etl/internal/broken/brokentest"
)

// TestSimulation runs the seeds in as many processes as there are processors, each
// on one, and reports what all of them together met. ETL_SIM_SEEDS is how many
// instead of 200.
func TestSimulation(t *testing.T) {
	if testing.Short() {
		t.Skip("the whole-engine simulation is left out with -short")
	}
	n := *seeds
	if other, err := strconv.Atoi(os.Getenv("ETL_SIM_SEEDS")); err == nil {
		n = other
	}
	from, began := *first, time.Now()
	if *seed != 0 {
		from, n = *seed, 1
	}
	// With this tag the Kafka client waits for its mutexes in a way that lets virtual time pass.
	binary := brokentest.Build(t, "synctests")
	ready := time.Now()
	all := newCoverage()
	var wg sync.WaitGroup
	shards := min(runtime.NumCPU(), n)
	for i := range shards {
		wg.Go(func() {
			flags := []string{"-test.run=^TestSeeds$", fmt.Sprint("-first=", from+uint64(i)), fmt.Sprint("-seeds=", n-i), fmt.Sprint("-every=", shards)}
			if i == 0 && *seed == 0 {
				flags[0] = "-test.run=^(TestSeeds|TestScenarios)$"
			}
			out, err := runShard(binary, nil, flags...)
			all.merge(shardCoverage(out))
			if err != nil {
				t.Errorf("%v\n%s", err, findings(out))
			}
		})
	}
	wg.Wait()
	if n >= 100 && !t.Failed() {
		aimAtTheRest(t, binary, all)
	}
	t.Logf("seeds %d to %d: built in %v, run in %v by %d processes, %.1f seeds per second", from, from+uint64(n)-1,
		ready.Sub(began).Round(time.Millisecond), time.Since(ready).Round(time.Millisecond), shards, float64(n)/time.Since(ready).Seconds())
	t.Log(all.table())
	if n >= 100 && !t.Failed() {
		all.check(t)
	}
}

// aimAtTheRest runs some more seeds for each fault point at which nobody happened to
// die.
func aimAtTheRest(t *testing.T, binary string, all *coverage) {
	for _, p := range points {
		if all.n["death/"+p] > 0 {
			continue
		}
		out, err := runShard(binary, nil, "-test.run=^TestSeeds$", "-first=100001", "-seeds=100", "-aim="+p)
		all.merge(shardCoverage(out))
		all.add("aimed at/" + p)
		if err != nil {
			t.Errorf("aimed at %s: %v\n%s", p, err, findings(out))
		}
	}
}

// runShard runs tests of a built binary on one processor.
func runShard(binary string, env []string, flags ...string) ([]byte, error) {
	cmd := exec.Command(binary, append([]string{"-test.timeout=0", "-talk=" + fmt.Sprint(*talk)}, flags...)...)
	cmd.Env = append(append(os.Environ(), "GOMAXPROCS=1"), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.Bytes(), err
}

func shardCoverage(out []byte) map[string]int64 {
	n := map[string]int64{}
	for line := range strings.Lines(string(out)) {
		if text, ok := strings.CutPrefix(line, shardMark); ok {
			n = map[string]int64{} // the last line of a process has all it counted
			_ = json.Unmarshal([]byte(text), &n)
		}
	}
	return n
}

// findings is what a process said, without its numbers and the middle of what is
// too long.
func findings(out []byte) string {
	var b strings.Builder
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, shardMark) {
			b.WriteString(line)
		}
	}
	s := b.String()
	if most := 24 << 10; len(s) > most {
		s = s[:most/2] + "\n...\n" + s[len(s)-most/2:]
	}
	return s
}
