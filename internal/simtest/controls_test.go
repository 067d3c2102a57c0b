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
)

// controlSeeds is within how many seeds every broken rule must be noticed.
const controlSeeds = 60

// controls are the rules whose breaking this simulation must notice. Heal and clean
// need a broker that skips markers, which kfake is not: the adapters' own tests and
// the torture on real brokers have those.
var controls = []broken.Rule{
	broken.CommitBeforePublish, broken.NoCommitOnRecovery, broken.FenceBeforeCommit, broken.MarkerOmitted, broken.MarkerNotRead,
	broken.OffsetsAfterBarrier, broken.AlignmentSkipped, broken.FlushErrorsIgnored, broken.AbortedDeltaDropped,
	broken.AbortedCommitUnlisted, broken.FinishErrorTolerated, broken.EpochBeforeAcknowledged, broken.ForeignBaseReused,
	broken.PublishWithoutLog,
}

// TestControls breaks one rule of the protocol at a time and runs seeds until
// something is noticed. A simulation that notices nothing would prove nothing.
func TestControls(t *testing.T) {
	if testing.Short() {
		t.Skip("the negative controls are left out with -short")
	}
	binary := buildSelf(t, "synctests,broken")
	began := time.Now()
	slots := make(chan struct{}, runtime.NumCPU())
	var wg sync.WaitGroup
	for _, rule := range controls {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			runControl(t, binary, rule)
		})
	}
	wg.Wait()
	t.Logf("%d controls in %v", len(controls), time.Since(began).Round(time.Second))
}

var failedSeed = regexp.MustCompile(`seed[ =](\d+)`)

func runControl(t *testing.T, binary string, rule broken.Rule) {
	out, err := runShard(binary, []string{"ETL_BROKEN=" + string(rule)}, "-test.run=^TestSeeds$", "-test.failfast", "-first=1", fmt.Sprint("-seeds=", controlSeeds))
	if err == nil {
		t.Errorf("%s: %d seeds noticed nothing", rule, controlSeeds)
		return
	}
	seed := 0
	if m := failedSeed.FindSubmatch(out); m != nil {
		seed, _ = strconv.Atoi(string(m[1]))
	}
	t.Logf("%s: noticed by seed %d: %s", rule, seed, firstFinding(out))
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
