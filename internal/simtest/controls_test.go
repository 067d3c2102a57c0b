package simtest

import (
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"etl/internal/broken"
	"etl/internal/broken/brokentest"
)

// controlSeeds is within how many seeds every broken rule must be noticed.
const controlSeeds = 60

// What the checkers say when they notice.
const (
	rows   = `lacks \d+ of|, want |follows count|is there twice|was counted|keys were counted|has \d+ rows|a reader of`
	loss   = `declares a loss|was abandoned`
	ahead  = `sinks are ahead|is of attempt`
	states = `: key \S+ has count`
)

// controls are the rules whose breaking this simulation must notice, and the checkers
// that must: a run that hangs, or ends for another reason, is not what the rule is there
// for. Heal and clean need a broker that skips markers, which kfake is not: the adapters'
// own tests and the torture on real brokers have those.
var controls = map[broken.Rule]string{
	broken.CommitBeforePublish:     rows + "|" + ahead,
	broken.NoCommitOnRecovery:      rows + "|" + loss,
	broken.FenceBeforeCommit:       rows + "|" + loss,
	broken.MarkerOmitted:           loss,
	broken.MarkerNotRead:           loss,
	broken.OffsetsAfterBarrier:     rows + "|" + states,
	broken.AlignmentSkipped:        rows + "|" + states,
	broken.FlushErrorsIgnored:      rows,
	broken.CapturedBeforeFlush:     rows,
	broken.AbortedDeltaDropped:     rows + "|" + states,
	broken.AbortedCommitUnlisted:   rows + "|" + loss,
	broken.FinishErrorTolerated:    rows,
	broken.EpochBeforeAcknowledged: rows,
	broken.ForeignBaseReused:       rows + "|" + states,
	broken.PublishWithoutLog:       rows + "|" + ahead,
}

// TestControls breaks one rule of the protocol at a time and runs seeds until
// its checker notices. A simulation that notices nothing would prove nothing.
func TestControls(t *testing.T) {
	brokentest.Slow(t)
	binary := brokentest.Build(t, "synctests,broken")
	began := time.Now()
	slots := make(chan struct{}, runtime.NumCPU())
	var wg sync.WaitGroup
	for rule, by := range controls {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			runControl(t, binary, rule, regexp.MustCompile(by))
		})
	}
	wg.Wait()
	t.Logf("%d controls in %v", len(controls), time.Since(began).Round(time.Second))
}

var failedSeed = regexp.MustCompile(`seed[ =](\d+)`)

func runControl(t *testing.T, binary string, rule broken.Rule, by *regexp.Regexp) {
	for first := 1; first <= controlSeeds; {
		out, err := runShard(binary, []string{"ETL_BROKEN=" + string(rule)}, "-test.run=^TestSeeds$", "-test.failfast",
			fmt.Sprint("-first=", first), fmt.Sprint("-seeds=", controlSeeds-first+1))
		m := failedSeed.FindSubmatch(out)
		if err == nil || m == nil {
			break
		}
		seed, _ := strconv.Atoi(string(m[1]))
		what := firstFinding(out)
		if by.MatchString(what) {
			t.Logf("%s: noticed by seed %d: %s", rule, seed, what)
			return
		}
		t.Logf("%s: not what it is about, seed %d: %s", rule, seed, what)
		first = seed + 1
	}
	t.Errorf("%s: the checkers of %d seeds noticed nothing", rule, controlSeeds)
}

// firstFinding is the first thing that was noticed, in one line.
func firstFinding(out []byte) string {
	m := regexp.MustCompile(`(?m)^ +\w+_test\.go:\d+: (seed .*)$|^panic: (.*)$`).FindSubmatch(out)
	if m == nil {
		return findings(out)
	}
	s := string(m[1]) + string(m[2])
	return s[:min(len(s), 300)]
}
