package integration

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"etl/internal/kafkatest"
)

// A hundred checkpoints leave nothing behind that ten have not: goroutines, open
// files and connections, transactional ids, checkpoints, files (K13, K14, D06).
func TestNothingGrows(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, out := b.Topic(t, 3), b.Topic(t, 2)
	j := newJob(t, b, strings.Replace(copying, "interval: 200ms", "interval: 40ms", 1)+"parallelism: 2\n", "IN="+in, "OUT="+out)
	stop := feed(t, b, in, 50, 3)
	r := j.start().running()
	sample := func() (goroutines, files, ids float64) {
		admin(t, b, "list transactions", func(adm *kadm.Client) error {
			l, err := adm.ListTransactions(t.Context(), nil, nil)
			for id := range l {
				if strings.Contains(id, j.name) {
					ids++
				}
			}
			return err
		})
		return r.metric("go_goroutines"), r.metric("process_open_fds"), ids
	}
	after := func(n float64) {
		t.Helper()
		eventually(t, "enough checkpoints", func() bool { return r.metric("etl_checkpoint_completed_total") >= n })
	}
	after(20)
	g, f, ids := sample()
	after(100)
	stop()
	j.caughtUp()
	g2, f2, ids2 := sample()
	t.Logf("goroutines %v then %v, files %v then %v, transactional ids %v then %v", g, g2, f, f2, ids, ids2)
	// An id that a slow broker made necessary has a client: connections and what serves
	// them. The ids are bounded themselves.
	if more := 5 * (ids2 - ids); g2 > g+20+more || f2 > f+15+more {
		t.Errorf("goroutines %v became %v, open files %v became %v", g, g2, f, f2)
	}
	// Two subtasks, each with at most 2 x (1 + 3) + 2 ids.
	if ids2 > 2*10 {
		t.Errorf("%v transactional ids", ids2)
	}
	j.must("stop")
	r.ends(0)
	if n := len(j.checkpoints()); n > 3 {
		t.Errorf("%d checkpoints are kept, want 3", n)
	}
}
