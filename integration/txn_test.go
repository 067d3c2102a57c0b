package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"etl/internal/kafkatest"
)

// inDoubt is what etl txn ls says of one transaction.
type inDoubt struct {
	ID       string `json:"id"`
	Sink     string `json:"sink"`
	ListedBy string `json:"listed_by"`
	Rows     int64  `json:"rows"`
	State    string `json:"state"`
	Right    string `json:"right"`
	Why      string `json:"why"`
}

// doubts lists what is in doubt, by what is right for it.
func (j *job) doubts(a answer) map[string][]inDoubt {
	j.t.Helper()
	var r struct{ Items []inDoubt }
	if err := json.Unmarshal(a.Result, &r); err != nil {
		j.t.Fatal(err)
	}
	out := map[string][]inDoubt{}
	for _, d := range r.Items {
		out[d.Right] = append(out[d.Right], d)
	}
	return out
}

// What a crash left in doubt is listed with what is right for it while the job is
// down; the wrong thing is refused; the right thing is done without a start, and a
// start afterwards is exact.
func TestTxn(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, copies := b.Topic(t, 2), b.Topic(t, 2)
	j := newJob(t, b, common+often+`
parallelism: 2
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"] }
sinks:
  copied: { type: kafka, connection: main, inputs: [in], topic: "${COPY}" }
`, "IN="+in, "COPY="+copies)
	stop := feed(t, b, in, 7, 2)
	var a answer
	var ds map[string][]inDoubt
	var one inDoubt // of the newest checkpoint: one of those before it may be committed and not confirmed
	for try := 0; one.ID == ""; try++ {
		if try == 5 {
			t.Fatalf("no checkpoint was published and not committed: %s", a.All)
		}
		j.faulty(fmt.Sprintf("checkpoint.published:%d:kill", 4<<try)).killed() // a busy machine may have read nothing by then
		a = j.must("txn ls")
		ds = j.doubts(a)
		if i := slices.IndexFunc(ds["commit"], func(d inDoubt) bool { return d.State == "Ongoing" }); i >= 0 {
			one = ds["commit"][i]
		}
	}
	if one.ListedBy == "" || one.Rows == 0 || one.Sink != "copied" {
		t.Errorf("%+v", one)
	}
	j.must("txn explain", one.ID)
	j.refused(j.etl("txn abort", one.ID), 1, "txn.wrong", one.ListedBy)
	j.refused(j.etl("txn commit", "etl.nobody@1.1"), 1, "txn.unknown")
	if again := j.doubts(j.must("txn ls")); len(again["commit"]) != len(ds["commit"]) || len(again["abort"]) != len(ds["abort"]) {
		t.Errorf("refusals and looks change nothing: %v, then %v", ds, again)
	}

	if left := j.doubts(j.must("txn commit", one.ID)); len(left["commit"]) > 0 {
		t.Errorf("still to be committed: %v", left)
	}
	if left := j.doubts(j.must("txn abort")); len(left["commit"])+len(left["abort"]) > 0 {
		t.Errorf("still in doubt: %v", left)
	}
	free(t, b, copies) // nothing holds readers back

	r := j.start().running()
	r.checkpoints(2)
	n := stop()
	j.caughtUp()
	j.refused(j.etl("txn commit"), 6, "job.held")
	j.must("stop")
	r.ends(0)
	j.finished()
	everyNumberOnce(t, committed(t, b, copies), n, 2)
}

// Transactions of a job whose pipeline file and checkpoints are gone are found by
// their prefix, and ended by force.
func TestTxnOrphans(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, copies := b.Topic(t, 2), b.Topic(t, 2)
	text := common + often + `
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"] }
sinks:
  copied: { type: kafka, connection: main, inputs: [in], topic: "${COPY}" }
`
	lost := newJob(t, b, text, "IN="+in, "COPY="+copies)
	produce(t, b, in, numbered(0, 100, 7, 2)...)
	lost.faulty("kafka.prepared:1:kill").killed()
	orphans := lost.doubts(lost.must("txn ls"))["abort"]
	if len(orphans) == 0 {
		t.Fatal("the job that was killed left nothing")
	}

	other := newJob(t, b, text, "IN="+in, "COPY="+b.Topic(t, 1))
	found := map[string]bool{}
	for _, d := range other.doubts(other.must("txn ls", "--prefix", "etl."))["leave"] {
		found[d.ID] = true
	}
	for _, o := range orphans {
		if !found[o.ID] {
			t.Errorf("%s is not found by its prefix", o.ID)
		}
		other.refused(other.etl("txn abort", o.ID), 1, "txn.unknown")
		other.must("txn abort", o.ID, "--force")
	}
	if left := lost.doubts(lost.must("txn ls")); len(left["abort"]) > 0 {
		t.Errorf("still in doubt: %v", left)
	}
	free(t, b, copies)
}
