package verify

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkaconn"
	"etl/stream"
)

// whileWaiting is a clock that does something instead of waiting.
type whileWaiting struct {
	stream.SystemClock
	do func()
}

func (c whileWaiting) Sleep(context.Context, time.Duration) error {
	c.do()
	return nil
}

// A checkpoint becomes visible one partition after the other. The rows of a key that lie in
// the first then follow from rows that nobody sees yet; of many such rows it is not known
// that they are missing, and those that are there look altered. That passes.
func TestCommitUnderWay(t *testing.T) { eachBroker(t, 2, commitUnderWay) }

func commitUnderWay(t *testing.T, conn kafkaconn.Config, topics []string) {
	const hidden, all = 900, 920 // more than are looked for, and some behind them
	ts := time.UnixMilli(1700000000000)
	var in, first, rest []*kgo.Record
	for i := 1; i <= all; i++ {
		in = append(in, &kgo.Record{Topic: topics[0], Value: fmt.Appendf(nil, `{"n":%d}`, i), Timestamp: ts})
		row := &kgo.Record{Topic: topics[1], Partition: 1, Value: fmt.Appendf(nil, `{"key":1,"sum":%d}`, i*(i+1)/2), Timestamp: ts}
		if i <= hidden {
			rest = append(rest, row)
		} else {
			row.Partition = 0
			first = append(first, row)
		}
	}
	if err := client(t, conn).ProduceSync(t.Context(), in...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	begun := func(name string, rows []*kgo.Record) *kgo.Client {
		tx := client(t, conn, kgo.TransactionalID(topics[1]+name))
		if err := tx.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := tx.ProduceSync(t.Context(), rows...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		return tx
	}
	commit := func(tx *kgo.Client, open int) {
		if err := tx.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		settled(t, conn, topics[1], open)
	}
	later := begun("-late", rest)
	commit(begun("-early", first), 1)

	s := Spec{Name: "sums", Sources: []Source{{Name: "src", Conn: conn, Topics: topics[:1], Decode: "json"}},
		Transforms: []Transform{{Name: "sums", Type: "aggregate", Inputs: []string{"src"}, Key: []string{"1"}, Aggregates: []Aggregate{{Name: "sum", Op: "sum", Of: "this.n"}}, Emit: "on_change"}},
		Sinks:      []Sink{{Name: "out", Inputs: []string{"sums"}, Conn: conn, Topic: topics[1]}}}
	r, err := Verify(t.Context(), s, Options{})
	if err != nil || r.OK || r.Altered == 0 || r.Missing != 0 || r.Uncommitted != hidden {
		t.Fatalf("not what this test is about: %v\n%s", err, describe(r))
	}
	waited := 0
	clock := whileWaiting{do: func() {
		if waited++; waited == 1 {
			commit(later, 0)
		}
	}}
	r, err = Verify(t.Context(), s, Options{Settle: time.Minute, Clock: clock})
	if err != nil || !r.OK || waited != 1 || r.RecordsOut != all {
		t.Errorf("after %d pauses: %v\n%s", waited, err, describe(r))
	}
}

// TestSecondLook names the results that are looked at again: those that are not OK.
func TestSecondLook(t *testing.T) {
	doubled := SinkResult{Counts: Counts{Duplicated: 1, Altered: 1, OutOfOrder: 1}}
	loosely, again := doubled, SinkResult{Counts: Counts{Duplicated: 1}, repeats: true}
	loosely.atLeastOnce = true
	invented := loosely
	invented.invented = 1
	for name, of := range map[string]struct {
		r        Result
		finished bool
		want     bool
	}{
		"all is well":            {Result{}, true, false},
		"missing":                {Result{Counts: Counts{Missing: 1}}, false, true},
		"altered":                {Result{Sinks: []SinkResult{{Counts: Counts{Altered: 1}}}}, false, true},
		"duplicated":             {Result{Sinks: []SinkResult{{Counts: Counts{Duplicated: 1}}}}, false, true},
		"misplaced":              {Result{Sinks: []SinkResult{{Counts: Counts{OutOfOrder: 1}}}}, false, true},
		"at least once":          {Result{Sinks: []SinkResult{loosely}}, true, false},
		"at least once, of none": {Result{Sinks: []SinkResult{loosely, invented}}, false, true},
		"there again":            {Result{Sinks: []SinkResult{again}}, true, false},
		"one is exact":           {Result{Sinks: []SinkResult{loosely, again, doubled}}, false, true},
		"one is open":            {Result{Counts: Counts{Uncommitted: 1}}, false, false},
		"one is open at the end": {Result{Counts: Counts{Uncommitted: 1}}, true, true},
		"behind":                 {Result{Counts: Counts{Behind: 1}}, false, false},
		"behind at the end":      {Result{Counts: Counts{Behind: 1}}, true, true},
		"hanging":                {Result{Open: []Open{{}}}, false, false},
		"hanging at the end":     {Result{Open: []Open{{}}}, true, true},
	} {
		if of.r.judge(Options{Finished: of.finished}); of.r.OK == of.want {
			t.Errorf("%s: want %v", name, of.want)
		}
	}
}
