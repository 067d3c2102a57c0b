package integration

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"etl/internal/kafkatest"
)

// forgotten waits until a broker has forgotten all that it knew of a job: its
// transactional ids and, a minute after they were written, its markers. A coordinator that
// is away for a moment lists nothing either: each name that was seen must be denied.
func forgotten(t testing.TB, b *kafkatest.Broker, job string) {
	t.Helper()
	ids, groups := map[string]bool{}, map[string]bool{}
	eventually(t, "the broker forgets "+job, func() bool {
		gone := false
		admin(t, b, "list", func(adm *kadm.Client) error {
			ts, err := adm.ListTransactions(t.Context(), nil, nil)
			gs, err2 := adm.ListGroups(t.Context())
			known := noted(ids, ts.TransactionalIDs(), job) + noted(groups, gs.Groups(), job)
			gone = known == 0 && err == nil && err2 == nil
			return nil
		})
		return gone && denied(t, b, ids, groups)
	})
}

// noted adds those of the names that a job has, and counts them.
func noted(to map[string]bool, names []string, job string) (n int) {
	for _, name := range names {
		if strings.Contains(name, job) {
			to[name] = true
			n++
		}
	}
	return n
}

// denied reports whether the coordinators answer for all of these, and know none.
func denied(t testing.TB, b *kafkatest.Broker, ids, groups map[string]bool) (gone bool) {
	t.Helper()
	admin(t, b, "describe", func(adm *kadm.Client) error {
		gone = true
		for id := range ids {
			d, err := adm.DescribeTransactions(t.Context(), id)
			gone = gone && err == nil && errors.Is(d[id].Err, kerr.TransactionalIDNotFound)
		}
		for g := range groups {
			os, err := adm.FetchOffsets(t.Context(), g)
			gone = gone && (err == nil && len(os) == 0 || errors.Is(err, kerr.GroupIDNotFound))
		}
		return nil
	})
	return gone
}

// While the job is down for long the broker forgets its transactional ids and its
// markers. What was confirmed is never called lost: the job goes on (K05).
func TestForgottenWhileDown(t *testing.T) {
	t.Parallel()
	b := strict(t)
	j, in, out := prepared(t, b)
	forgotten(t, b, j.name)
	produce(t, b, in, values(0, "c")...)
	r := j.start().running()
	j.caughtUp()
	j.must("stop")
	r.ends(0)
	j.finished()
	exactly(t, b, out, "a", "b", "c")
}

// What was committed and not confirmed when the process died cannot be told from
// what was lost, once marker and transactional id are forgotten. The job says so,
// and nothing happens by itself, at any number of starts.
func TestUnknownAfterLongOutage(t *testing.T) {
	t.Parallel()
	b := strict(t)
	in, out := b.Topic(t, 1), b.Topic(t, 1)
	j := newJob(t, b, copying, "IN="+in, "OUT="+out)
	produce(t, b, in, values(0, "a", "b")...)
	j.faulty("kafka.verified:1:kill").killed()
	exactly(t, b, out, "a", "b")
	forgotten(t, b, j.name)
	for range 2 {
		j.refusedToStart(b, out, 5, "restore.no_exact_checkpoint", "checkpoint "+j.checkpoints()[0], "2 rows of out/0", "unknown", in+"/0[0,2)")
	}
	free(t, b, out)
}

// quickToAbort is copying to two topics, with transactions that live hardly longer
// than the outage which is allowed at least.
const quickToAbort = common + `
checkpoint: { interval: 200ms, min_pause: 10ms, timeout: 5s, tolerable_failures: 0 }
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"], decode: raw }
sinks:
  one: { type: kafka, connection: main, inputs: [in], topic: "${ONE}", transaction_timeout: 71s }
  two: { type: kafka, connection: main, inputs: [in], topic: "${TWO}", transaction_timeout: 71s }
`

// Transactions that were prepared, published and not committed within their timeout
// are gone: the broker has aborted them. Where none of a checkpoint was committed,
// the job goes back to the one before, and is exact (K04).
//
// Where one sink has committed and the other has not, no checkpoint agrees with
// both: the loss is declared, with checkpoint, sink and the records it came from, at
// any number of starts, until somebody decides what to repeat.
func TestTimedOutWhileDown(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, one, two, half1, half2 := b.Topic(t, 1), b.Topic(t, 1), b.Topic(t, 1), b.Topic(t, 1), b.Topic(t, 1)
	produce(t, b, in, values(0, "a", "b")...)
	none := newJob(t, b, quickToAbort, "IN="+in, "ONE="+one, "TWO="+two)
	none.faulty("checkpoint.published:1:kill").killed()
	half := newJob(t, b, quickToAbort, "IN="+in, "ONE="+half1, "TWO="+half2)
	half.faulty("kafka.endtxn.before:2:delay=1m,kafka.verified:1:kill").killed()
	if len(texts(t, b, half1))+len(texts(t, b, half2)) != 2 {
		t.Fatal("not one of two transactions is committed")
	}
	produce(t, b, in, values(0, "c")...)
	began := time.Now()
	for _, topic := range []string{one, two, half1, half2} {
		free(t, b, topic)
	}
	if waited := time.Since(began); waited < 30*time.Second {
		t.Fatalf("the transactions were ended after %v: not by the broker", waited)
	}

	r := none.start().running()
	none.caughtUp()
	none.must("stop")
	r.ends(0)
	none.finished()
	exactly(t, b, one, "a", "b", "c")
	exactly(t, b, two, "a", "b", "c")

	before1, before2 := texts(t, b, half1), texts(t, b, half2)
	committed, lost := half1, "two/0"
	if len(before1) == 0 {
		committed, lost = half2, "one/0"
	}
	for range 2 {
		half.refusedToStart(b, committed, 5, "restore.no_exact_checkpoint", half.checkpoints()[0], lost, in+"/0[0,2)")
	}
	ids := half.checkpoints()
	r = half.start("--from", ids[len(ids)-1], "--accept-duplicates").running()
	eventually(t, "the rows are there", func() bool { return len(texts(t, b, half1)) > 2 && len(texts(t, b, half2)) > 2 })
	half.must("stop")
	r.ends(0)
	exactly(t, b, half1, append(before1, "a", "b", "c")...)
	exactly(t, b, half2, append(before2, "a", "b", "c")...)
}

// The process is stopped (SIGSTOP, a laptop's lid, a paused machine) for longer than
// its transactions live. When it wakes up it must not publish a checkpoint whose
// rows the broker has aborted meanwhile: it starts again from the last one (K22).
func TestAsleepPastTheTimeout(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, one, two := b.Topic(t, 1), b.Topic(t, 1), b.Topic(t, 1)
	j := newJob(t, b, quickToAbort, "IN="+in, "ONE="+one, "TWO="+two)
	produce(t, b, in, values(0, "a", "b")...)
	r := j.faulty("kafka.prepared:2:stop") // both sinks have rows: before a record was fetched there is nothing to prepare
	r.stopped()
	free(t, b, one) // by the broker
	free(t, b, two)
	r.signal(syscall.SIGCONT)
	produce(t, b, in, values(0, "c")...)
	j.caughtUp()
	if r.count("restarting from the last checkpoint") == 0 {
		t.Error("the attempt went on")
	}
	j.must("stop")
	r.ends(0)
	j.finished()
	exactly(t, b, one, "a", "b", "c")
	exactly(t, b, two, "a", "b", "c")
}
