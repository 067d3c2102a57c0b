package simtest

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// judge looks at what the job has left, with nothing of the engine.
func (s *sim) judge() {
	if s.t.Failed() {
		s.out.close()
		return
	}
	if s.lossTold != nil {
		pause(transactionTimeout + time.Minute) // what is open is given up
	}
	pause(3 * time.Second) // for the watcher to see the last rows
	final := s.readAll("out")
	s.checkWatcher(final)
	if s.lossTold != nil {
		s.checkLoss(final)
		return
	}
	s.checkRows(final)
	s.checkEnds()
	s.checkTransactions()
	s.checkLog()
}

// expectedRows is how many rows must come out.
func (s *sim) expectedRows() (n int) {
	for _, rows := range s.expectedValues() {
		n += len(rows)
	}
	return n
}

// expectedValues is what must come out of each input partition, before counting.
func (s *sim) expectedValues() map[int32][]*kgo.Record {
	in := s.in.expected()
	if s.plan.shape != fanOut && s.plan.shape != fanCounts {
		return in
	}
	out := map[int32][]*kgo.Record{}
	for p, recs := range in {
		for _, r := range recs {
			out[p] = append(out[p], s.fan(r)...)
		}
	}
	return out
}

// fan is what filter and flat_map make of a record.
func (s *sim) fan(r *kgo.Record) (out []*kgo.Record) {
	text, ok := strings.CutPrefix(string(r.Value), `{"n":`)
	number, list, ok2 := strings.Cut(text, ",")
	n, err := strconv.Atoi(number)
	if !ok || !ok2 || err != nil {
		s.fail("input value %q", r.Value)
		return nil
	}
	if n%3 == 0 {
		return nil
	}
	list = strings.TrimSuffix(strings.TrimPrefix(list, `"items":[`), "]}")
	if list == "" {
		return nil
	}
	for _, item := range strings.Split(list, ",") {
		c := *r
		c.Value = []byte(item)
		out = append(out, &c)
	}
	return out
}

func (s *sim) checkRows(final map[int32][]seen) {
	if s.plan.shape.keyed() {
		s.checkCounts(final)
		return
	}
	want := s.expectedValues()
	for p := range int32(outPartitions) {
		s.checkPartition(p, want[p], final[p])
	}
}

// checkPartition compares one partition of the output with that of the input:
// nothing missing, nothing twice, nothing altered, in order.
func (s *sim) checkPartition(p int32, want []*kgo.Record, got []seen) {
	for i := range min(len(want), len(got)) {
		if !sameRecord(want[i], got[i].rec) {
			s.fail("partition %d: row %d is %s, want %s=%s (%d rows, want %d)", p, i, got[i], want[i].Key, want[i].Value, len(got), len(want))
			return
		}
	}
	if len(want) != len(got) {
		s.fail("partition %d has %d rows, want %d", p, len(got), len(want))
	}
}

// checkCounts recounts: for each key the numbers 1, 2, 3... up to how often it
// occurs, in this order, in one partition.
func (s *sim) checkCounts(final map[int32][]seen) {
	want, got, home := map[string]int{}, map[string]int{}, map[string]int32{}
	for _, recs := range s.expectedValues() {
		for _, r := range recs {
			want[string(r.Key)]++
		}
	}
	for p, rows := range final {
		for _, row := range rows {
			key := string(row.rec.Key)
			got[key]++
			if n, err := strconv.Atoi(string(row.rec.Value)); err != nil || n != got[key] {
				s.fail("key %s: row %s follows count %d", key, row, got[key]-1)
				return
			}
			if at, ok := home[key]; ok && at != p {
				s.fail("key %s is in partitions %d and %d", key, at, p)
			}
			home[key] = p
		}
	}
	for key, n := range want {
		if got[key] != n {
			s.fail("key %s was counted %d times, it occurs %d times", key, got[key], n)
			return
		}
	}
	if len(got) != len(want) {
		s.fail("%d keys were counted, %d occur", len(got), len(want))
	}
}

// checkWatcher: what a reader saw at any time is in the end at its place, unaltered.
func (s *sim) checkWatcher(final map[int32][]seen) {
	s.out.close()
	for _, what := range s.out.bad {
		s.fail("a reader saw two things in one place: %s", what)
	}
	left := len(s.out.all)
	for p, rows := range final {
		for _, row := range rows {
			saw, ok := s.out.all[spot{p, row.offset}]
			switch {
			case !ok:
				s.fail("a reader that follows the output did not see %s", row)
				return
			case !saw.same(row):
				s.fail("a reader saw %s, where %s is in the end", saw, row)
				return
			}
			left--
		}
	}
	if left > 0 {
		s.fail("a reader saw %d rows that are not there in the end", left)
	}
}

// checkEnds: nothing holds readers back.
func (s *sim) checkEnds() {
	stable, ends := s.stableEnds("out"), s.logEnds("out")
	for p, end := range ends {
		if stable[p] != end {
			s.fail("the last stable offset of partition %d is %d, its end %d", p, stable[p], end)
		}
	}
}

// checkTransactions: none of the job's is left open.
func (s *sim) checkTransactions() {
	cl := s.client()
	defer cl.Close()
	ts, err := kadm.NewClient(cl).ListTransactions(context.Background(), nil, nil)
	if err != nil {
		s.fail("list transactions: %v", err)
	}
	for id, t := range ts {
		if t.State != "Empty" && strings.HasPrefix(id, "etl.") {
			s.fail("transaction %s is left in state %s", id, t.State)
		}
	}
}
