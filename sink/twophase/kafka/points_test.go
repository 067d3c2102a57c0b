package kafka

import (
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"

	"etl/checkpoint"
	"etl/internal/fault"
	"etl/sink/kafkatxn"
)

// Every point of the table is passed in the life of a job, and every point a job passes
// is in the table: a kill planned at a point that is not there kills nothing. The heal is
// passed in package kafkatxn, where a coordinator skips markers on request.
func TestEveryPointIsPassed(t *testing.T) {
	var mu sync.Mutex
	passed := map[string]bool{"kafka.heal.before": true}
	fault.Watch(func(name string) {
		mu.Lock()
		defer mu.Unlock()
		passed[name] = true
	})
	defer fault.Watch(nil)
	j := fakeJob(t, kfake.MaxVersions(kversion.V3_9_0()))
	j.cfg.Policy.TolerableFailures = -1
	j.start()
	var first checkpoint.Committable
	for i := range 6 { // more than there are slots, never retired
		id := j.publishes(10)
		if i == 0 {
			first = j.open[0]
		}
		j.resolve(id, false)
	}
	j.must(j.commit(t.Context(), j.permit[first.Checkpoint], first)) // its slot was used again: the marker answers
	j.write(10)                                                      // open when it dies
	j.crash()
	j.start()
	j.write(10)
	j.checkpoint()
	j.wantExactly(70)

	mu.Lock()
	defer mu.Unlock()
	for name, k := range Points {
		if !passed[name] {
			t.Errorf("%s (%s) was never passed", name, k)
		}
		delete(passed, name)
	}
	for name := range passed {
		if len(name) > 6 && name[:6] == "kafka." {
			t.Errorf("%s is not in the table", name)
		}
	}
	for name := range kafkatxn.Points {
		if Points[name] == "" {
			t.Errorf("%s is missing", name)
		}
	}
}
